"""The equations once more, one neuron and one number at a time, written from the papers and the peers' documentation.

Nothing here uses the library: these are what its neurons are compared with.
"""

import math


def if_or_lif(xs, tau=None, threshold=1.0, reset=0.0, decay_input=True):
    """SpikingJelly's IF (tau=None) and LIF; returns spikes and the membrane after reset."""
    rest = 0.0 if reset is None else reset
    v, spikes, membrane = rest, [], []
    for x in xs:
        if tau is None:
            v = v + x
        elif decay_input:
            v = v + (x - (v - rest)) / tau
        else:
            v = v - (v - rest) / tau + x
        spike = v >= threshold
        if spike:
            v = v - threshold if reset is None else reset
        spikes.append(float(spike))
        membrane.append(v)
    return spikes, membrane


def leaky(xs, beta, threshold=1.0, mechanism="subtract", delay=True):
    """snnTorch's Leaky; returns spikes and the membrane as snnTorch returns it."""
    mem, spikes, membrane = 0.0, [], []
    for x in xs:
        fired = mem > threshold
        if mechanism == "zero" and fired:
            mem = 0.0
        mem = beta * mem + x
        if mechanism == "subtract" and fired:
            mem -= threshold
        spike = mem > threshold
        if not delay:
            due = int(spike) - int(fired)
            if mechanism == "subtract":
                mem -= due * threshold
            elif mechanism == "zero":
                mem -= due * mem
        spikes.append(float(spike))
        membrane.append(mem)
    return spikes, membrane


def cuba_lif(xs, tau_mem_inv=100.0, tau_syn_inv=200.0, leak=0.0, threshold=1.0, reset=0.0, dt=1e-3):
    """Norse's LIF; a threshold of infinity makes it Norse's LI."""
    v, i, spikes, membrane = leak, 0.0, [], []
    for x in xs:
        i = i + x
        v = v + dt * tau_mem_inv * ((leak - v) + i)
        i = i - dt * tau_syn_inv * i
        spike = v > threshold
        if spike:
            v = reset
        spikes.append(float(spike))
        membrane.append(v)
    return spikes, membrane


def alif(xs, tau=20.0, tau_adapt=200.0, beta=0.07, threshold=1.0):
    """Bellec et al. 2020, with subtraction of the threshold at rest."""
    v, a, spikes, membrane = 0.0, 0.0, [], []
    for x in xs:
        v = math.exp(-1 / tau) * v + x
        spike = v >= threshold + beta * a
        a = math.exp(-1 / tau_adapt) * a + spike
        v -= spike * threshold
        spikes.append(float(spike))
        membrane.append(v)
    return spikes, membrane


def izhikevich(xs, a=0.02, b=0.2, c=-65.0, d=8.0, dt=1.0):
    """Izhikevich 2003: two half steps for v, one for u, then reset."""
    v, u, spikes, membrane = -65.0, b * -65.0, [], []
    for x in xs:
        for _ in range(2):
            v += dt / 2 * (0.04 * v**2 + 5 * v + 140 - u + x)
        u += dt * a * (b * v - u)
        spike = v >= 30
        if spike:
            v, u = c, u + d
        spikes.append(float(spike))
        membrane.append(v)
    return spikes, membrane


def qif(xs, tau=2.0, critical=0.8, a0=1.0, threshold=1.0, rest=0.0, reset=-0.1):
    """SpikingJelly's QIF; returns spikes and the membrane after reset."""
    v, spikes, membrane = 0.0 if reset is None else reset, [], []
    for x in xs:
        v = v + (x + a0 * (v - rest) * (v - critical)) / tau
        spike = v >= threshold
        if spike:
            v = v - threshold if reset is None else reset
        spikes.append(float(spike))
        membrane.append(v)
    return spikes, membrane


def adex(
    xs,
    mem=100.0,
    syn=200.0,
    ada=2.0,
    coupling=4.0,
    jump=0.02,
    delta=0.5,
    leak=0.0,
    threshold=1.0,
    peak=None,
    reset=0.0,
    dt=1e-3,
):
    """Norse's LIFAdEx; a peak beyond the threshold makes it that of Brette and Gerstner 2005."""
    v, i, a, spikes, membrane = leak, 0.0, 0.0, [], []
    for x in xs:
        i = i + x
        charged = v + dt * mem * (leak - v + delta * math.exp((v - threshold) / delta) + i - a)
        a = a + dt * ada * (coupling * (v - leak) - a)
        i = i - dt * syn * i
        spike = charged > (threshold if peak is None else peak)
        v = reset if spike else charged
        a = a + spike * jump
        spikes.append(float(spike))
        membrane.append(v)
    return spikes, membrane


def synaptic(xs, alpha, beta, threshold=1.0, mechanism="subtract", delay=True):
    """snnTorch's Synaptic; returns spikes and the membrane as snnTorch returns it."""
    syn, mem, spikes, membrane = 0.0, 0.0, [], []
    for x in xs:
        fired = mem > threshold
        syn = alpha * syn + x
        mem = beta * mem + syn
        if fired:
            mem = {"subtract": mem - threshold, "zero": 0.0, "none": mem}[mechanism]
        spike = mem > threshold
        if not delay:
            due = int(spike) - int(fired)
            mem -= {"subtract": due * threshold, "zero": due * mem, "none": 0.0}[mechanism]
        spikes.append(float(spike))
        membrane.append(mem)
    return spikes, membrane


def alpha(xs, alpha, beta, threshold=1.0, mechanism="zero"):
    """snnTorch's Alpha; returns spikes and the membrane as snnTorch returns it."""
    exc, inh, mem, spikes, membrane = 0.0, 0.0, 0.0, [], []
    scale = math.log(alpha) / (math.log(beta) - math.log(alpha)) + 1
    for x in xs:
        fired, before = mem > threshold, inh
        exc, inh = alpha * exc + x, beta * inh - x
        mem = scale * (exc + inh)
        if fired and mechanism == "zero":
            exc, inh, mem = 0.0, 0.0, 0.0
        elif fired and mechanism == "subtract":
            exc, inh, mem = exc - threshold, 0.0, mem + before
        spikes.append(float(mem > threshold))
        membrane.append(mem)
    return spikes, membrane


def readout(xs, beta, decay_input=False):
    """A leaky sum; returns it twice, as output and as membrane."""
    mem, membrane = 0.0, []
    for x in xs:
        mem = beta * mem + ((1 - beta) * x if decay_input else x)
        membrane.append(mem)
    return membrane, membrane


def one_to_one(xs, weight, tau=2.0):
    """SpikingJelly's LIF, which gets its last spike back through a weight, as snnTorch's RLeaky does."""
    v, out, spikes, membrane = 0.0, 0.0, [], []
    for x in xs:
        v = v + (x + weight * out - v) / tau
        out = float(v >= 1.0)
        v = 0.0 if out else v
        spikes.append(out)
        membrane.append(v)
    return spikes, membrane


def refractory(xs, steps):
    """Norse's LIFRefrac: the membrane stands still for some steps after a spike, the current goes on."""
    v, i, wait, spikes, membrane = 0.0, 0.0, 0, [], []
    for x in xs:
        i = i + x
        spike = False
        if wait > 0:
            wait -= 1
        else:
            v = v + 0.1 * (i - v)
            spike = v > 1.0
            if spike:
                v, wait = 0.0, steps
        i = i - 0.2 * i
        spikes.append(float(spike))
        membrane.append(v)
    return spikes, membrane
