"""Names that users of other libraries bring along, and what they are here: for the errors at a wrong name.

Facts on the others: snnTorch 1.0, Norse 1.1, SpikingJelly 2.0, Sinabs 3.1. Their ideas that are not here have a
sentence that says so, too.
"""

from __future__ import annotations

import inspect

# Arguments that are one quantity under several names: the one that a neuron takes is what was meant.
_SAME = {
    "threshold": ("threshold", "v_threshold", "v_th", "v_peak", "vth", "spike_threshold"),
    "potential after a spike": ("v_reset", "c", "reset_v"),
    "potential at rest": ("v_leak", "v_rest"),
    "spike function": ("surrogate", "spike_grad", "surrogate_function", "surrogate_grad_fn", "spike_fn"),
    "time constant in time steps": ("tau", "init_tau", "tau_mem"),
    "number of neurons": ("features", "linear_features"),
    "connection": ("connection", "recurrent", "rec_connect"),
    "decay of the input": ("decay_input", "norm_input"),
    "number of steps": ("steps", "rho_reset", "refractory_period"),
}

# A number in other terms, by the argument that the neuron takes.
_CONVERTED = {
    "tau": "its membrane loses 1 / tau per step, so tau = 1 / (1 - beta), with decay_input=False as in Leaky(beta)",
    "init_tau": "its membrane loses 1 / tau per step, so init_tau = 1 / (1 - beta), with decay_input=False",
    "beta": "its decay per step is beta: beta_of(tau, dt) is exp(-dt / tau); that of SpikingJelly's LIFNode is "
    "1 - 1 / tau, that of Norse's LIF 1 - dt * tau_mem_inv",
    "tau_mem_inv": "its time constants are rates in 1/s: tau_mem_inv = 1 / tau, tau_syn_inv = 1 / tau_syn",
}
_CONSTANTS = ("tau", "tau_mem", "tau_syn", "tau_mem_inv", "tau_syn_inv", "alpha", "beta", "alpha_mem")

_STATE = "state is passed in and out here: out, state = neuron(x, state)"
_LEARN = "a number is learned if it is a Parameter: {0}=torch.nn.Parameter(torch.tensor({1}))"
_CONV = "give connection=torch.nn.Conv2d(channels, channels, 3, padding=1)"
_ONE_TO_ONE = "weights from each neuron to itself are OneToOne(neuron, weight)"

# What has no counterpart among the arguments.
_INSTEAD = {
    "init_hidden": _STATE,
    "output": f"the membrane is in the state; {_STATE}",
    "record_states": f"neuron.step(x, state) gives the state of every step; {_STATE}",
    "store_v_seq": f"neuron.step(x, state) gives the state of every step; {_STATE}",
    "learn_alpha": _LEARN.format("alpha", 0.8),
    "learn_beta": _LEARN.format("beta", 0.9),
    "learn_threshold": _LEARN.format("threshold", 1.0),
    "learn_recurrent": "its weights are learned; requires_grad_(False) of Recurrent's weight, or a number as that of "
    "OneToOne, keeps them",
    "train_alphas": _LEARN.format("beta", 0.9),
    "inhibition": "a winner mixes neurons, so it comes after the step: out, state = neuron.step(x, state), and "
    "out * torch.nn.functional.one_hot(neuron.membrane(state).argmax(1), N)",
    "graded_spikes_factor": "multiply the output: factor * out, or the weights of the next layer",
    "learn_graded_spikes_factor": "multiply the output by a Parameter, or learn the weights of the next layer",
    "state_quant": "states stay in float32; quantize.quantize makes weights int8",
    "surrogate_disable": "torch.no_grad() runs without gradients",
    "reset_mechanism": "v_reset is a number for a reset to it, and None subtracts the threshold",
    "reset_delay": "a spike resets at once here, except in Leaky, Synaptic and Alpha",
    "reset_fn": 'v_reset=0.0 or reset_mechanism="zero" resets to zero; None or "subtract" subtracts the threshold',
    "v_reset": 'reset_mechanism="zero" resets to zero, "subtract" subtracts the threshold',
    "detach_reset": "its reset has the gradient that its documentation says",
    "step_mode": "a neuron is called with all steps x [T, B, ...]; neuron.step(x, state) is a single one",
    "backend": 'engine="auto" takes the fastest that runs, or one of engine.ENGINES',
    "p": "numbers are arguments of their own, without LIFParameters: CubaLIF(tau_mem_inv=100.0, v_th=1.0)",
    "method": "surrogate=SuperSpike(100.0), or another of snnkit.surrogate",
    "all_to_all": _ONE_TO_ONE,
    "V": _ONE_TO_ONE,
    "conv2d_channels": _CONV,
    "kernel_size": _CONV,
    "hidden_size": "recurrent weights around 8 neurons are Recurrent(CubaLIF(), 8), after a torch.nn.Linear",
    "input_size": "weights are a layer of their own: nn.Sequential(torch.nn.Linear(4, 8), CubaLIF())",
    "R": "its Lapicque is Leaky(1 - dt / (R * C)) with the input dt / C * x",
    "C": "its Lapicque is Leaky(1 - dt / (R * C)) with the input dt / C * x",
    "time_step": "its Lapicque is Leaky(1 - dt / (R * C)) with the input dt / C * x",
    "min_v_mem": "membranes have no lower bound; a neuron of your own can clamp its own in a few lines",
    "num_timesteps": "the number of steps is that of x [T, B, ...]",
    "batch_size": "the size of the batch is that of x [T, B, ...]",
    "shape": "the shape is that of x [T, B, ...]",
}

#: What to give for required arguments.
REQUIRED = {
    "alpha": "the decay of its current per step, such as 0.8",
    "beta": "the decay of its membrane per step, such as 0.9, or beta_of(tau, dt) for a time constant",
    "neuron": "a Neuron such as LIF()",
    "steps": "for how many steps it rests after a spike, such as 3",
}

_LSTM = "cells with gates do not spike by an equation of their own: torch.nn.LSTM, with a neuron after it"
_PARALLEL = "without a reset, the membrane is Readout({0}), and its spikes are surrogate.ATan()(membrane - threshold)"
_LEFT_OUT = "is left out; a neuron of your own is one step of a few lines, see docs/adding_a_neuron.md"

#: Names that a user may look for in ``snnkit.neuron``, and what is here.
NAMES = {
    # snnTorch
    "Lapicque": "it is Leaky(1 - dt / (R * C)) with the input dt / C * x",
    "RLeaky": "it is Recurrent(Leaky(beta), features), with a convolution Recurrent(Leaky(beta), connection=Conv2d), "
    "and from each neuron to itself OneToOne(Leaky(beta), V)",
    "RSynaptic": "it is Recurrent(Synaptic(alpha, beta), features), and from each neuron to itself "
    "OneToOne(Synaptic(alpha, beta), V)",
    "SLSTM": _LSTM,
    "SConv2dLSTM": _LSTM,
    "LeakyParallel": _PARALLEL.format("beta"),
    "StateLeaky": _PARALLEL.format("math.exp(beta - 1)"),
    "LinearLeaky": f"{_PARALLEL.format('math.exp(beta - 1)')}, after a torch.nn.Linear",
    "DeltaLeaky": f"it {_LEFT_OUT}",
    "AssociativeLeaky": f"it {_LEFT_OUT}",
    "BatchNormTT1d": "it is nn.PerStep(*(torch.nn.BatchNorm1d(features) for _ in range(steps)))",
    "BatchNormTT2d": "it is nn.PerStep(*(torch.nn.BatchNorm2d(channels) for _ in range(steps)))",
    # SpikingJelly
    "IFNode": "it is IF",
    "LIFNode": "it is LIF",
    "ParametricLIFNode": "it is PLIF",
    "QIFNode": "it is QIF",
    "EIF": "docs/adding_a_neuron.md writes it, and AdEx has its exponential with a synapse and an adaptation",
    "EIFNode": "docs/adding_a_neuron.md writes it, and AdEx has its exponential with a synapse and an adaptation",
    "IzhikevichNode": "it is Izhikevich, with the equations and numbers of 2003",
    "CUBALIFNode": 'it is Synaptic(c_decay, v_decay, v_threshold, reset_mechanism="zero", reset_delay=False), '
    "which fires above its threshold, not at it",
    "NonSpikingIFNode": "it is Readout(1.0)",
    "NonSpikingLIFNode": "it is Readout(1 - 1 / tau, decay_input=True)",
    "TernaryIFNode": f"a neuron with spikes of -1, 0 and 1 {_LEFT_OUT}",
    "TernaryLIFNode": f"a neuron with spikes of -1, 0 and 1 {_LEFT_OUT}",
    "GatedLIFNode": f"it {_LEFT_OUT}",
    "KLIFNode": f"it {_LEFT_OUT}",
    "LIAFNode": f"it {_LEFT_OUT}",
    # Norse
    "LIFCell": "a cell is a neuron, and neuron.step(x, state) is its single step: CubaLIF",
    "LICell": "a cell is a neuron, and neuron.step(x, state) is its single step: LI",
    "LIFParameters": "numbers are arguments of the neuron: CubaLIF(tau_mem_inv=100.0, v_th=1.0)",
    "LIFRecurrent": "it is nn.Sequential(torch.nn.Linear(inputs, hidden), Recurrent(CubaLIF(), hidden))",
    "LIFRecurrentCell": "it is nn.Sequential(torch.nn.Linear(inputs, hidden), Recurrent(CubaLIF(), hidden))",
    "LIFRefrac": "it is Refractory(CubaLIF(), 5)",
    "LIFAdEx": "it is AdEx",
    "LIFAdExRefrac": "it is Refractory(AdEx(), 5)",
    "LIFBox": "without a synapse: LIF(1 / (dt * tau_mem_inv)), which fires at its threshold, too",
    "LIBox": "it is Readout(1 - dt * tau_mem_inv, decay_input=True)",
    "LSNN": "it is Recurrent(ALIF(), features), by the equation of Bellec et al. 2020",
    "IAF": "it is IF",
    "LIFMC": f"a neuron with compartments {_LEFT_OUT}",
    "CobaLIF": f"a neuron with conductances {_LEFT_OUT}",
    # Sinabs
    "ExpLeak": "it is Readout(beta_of(tau_mem, 1)), with norm_input=True also decay_input=True",
    "LIFRecurrentSqueeze": "it is Recurrent(LIF(), features)",
}


def hints(kind: type) -> dict[str, str]:
    """What to write instead of arguments of other libraries, for ``lazy.explains``: by what this class accepts."""
    accepted = inspect.signature(kind).parameters
    texts = dict(_INSTEAD)
    converted = next((text for known, text in _CONVERTED.items() if known in accepted), None)
    if converted is not None:
        texts |= dict.fromkeys(_CONSTANTS, converted)
    for what, group in _SAME.items():
        known = next((one for one in group if one in accepted), None)
        if known is not None:
            texts |= dict.fromkeys(group, f"its {what} is {known}")
    return texts
