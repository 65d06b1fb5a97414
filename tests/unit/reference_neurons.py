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
