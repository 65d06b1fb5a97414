"""A valid call of every public callable: functions, constructors, and the methods that take arguments."""

# ruff: noqa: F401  what is imported is used in TABLE

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import json
import os
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
import torch
import torch.nn.functional as F
from torch import nn, ones, rand, tensor, zeros

import snnkit
from snnkit import device, neuron, plasticity, records, train
from snnkit.data import events
from snnkit.lab import bench, course, sweep, text, viz
from snnkit.lab.hardware import chips, energy, ipu, roofline, scaling
from snnkit.lab.tools import doctor, pair, runner
from snnkit.lab.tools.parameters import Parameter
from snnkit.lab.tools.project import find
from snnkit.lab.workshop import bundle, preflight
from snnkit.measure import HostClock
from snnkit.models import mlp
from snnkit.train import lit, recipes, slurm
from snnkit.train.checkpoint import LIGHTNING_KEY
from tests.unit import every_figure, sweep_cases, tiny_project
from tests.unit.test_bench_record import contribution
from tests.unit.test_hardware_fitting import machine

# Rooms of snnkit and of snnkit.lab, and public ones within them. Not here: checks, files and tables, which serve the
# others, and the command line, which has texts of its own.
ROOMS = """
    bench bench.compare bench.demo bench.local bench.neurons bench.plasticity bench.record bench.scaling bench.training
    challenge course data data.augment data.events data.events.transforms data.sounds device encode engine exercises
    export
    hardware.chips hardware.energy hardware.ipu hardware.roofline hardware.scaling interop loss measure models neuron
    nn pages plasticity quantize recording records surrogate sweep text tools.doctor tools.notebook_client tools.pair
    tools.parameters tools.project tools.run_report tools.runner tools.site train train.lit train.recipes train.slurm
    viz viz.figures viz.explorers workshop.bundle workshop.handouts workshop.minutes workshop.preflight
    workshop.timetable workshop.wheels
""".split()  # noqa: SIM905

# What is not called, and why; methods of a class with it.
LEFT_OUT = {
    "bench.scaling.benchmark hardware.roofline.fit hardware.roofline.validate": "measures for longer",
    "bench.record.benchmark": "measures for ten minutes",
    "tools.notebook_client.WatchedClient tools.runner.Kernels tools.runner.execute_all": "starts kernels",
    "workshop.minutes.update": "writes into the project",
    "tools.site.build workshop.bundle.build workshop.wheels.own workshop.wheels.for_this_machine": "starts programs",
    "workshop.wheels.for_other tools.doctor.report viz.inductor": "starts programs",
    "plasticity.Convolution.check plasticity.Convolution.columns plasticity.Convolution.outputs": "called by a rule",
    "plasticity.Convolution.rows plasticity.Dense.check plasticity.Dense.columns plasticity.Dense.rows": "the same",
    "engine.handle_of engine.plan_for engine.state_dtype": "called by unroll, which checks",
    "data.events.load measure.DeviceClock": "downloads; needs a GPU",
    "hardware.roofline.HoldoutNet.loss sweep.Manifest": "the value of a field; made by sweep.load",
}
NOT_CALLED = set(" ".join(LEFT_OUT).split())
# Numbers of which a huge one is a request for huge work, and no mistake.
ENDLESS = {"epochs", "updates", "repeats", "passes", "sentences", "warmup", "calls", "per_class"}
# Given even where they have defaults, which would take long or ask the network.
QUIET = {"device", "progress", "download"}
# Methods that PyTorch or Lightning call; and of neurons, what only an equation uses.
HOOKS = {"extra_repr", "setup", "load_state_dict", "configure_ddp", "add_module", "training_step"}
HOOKS |= {"validation_step", "test_step"}
EQUATION = {"step", "charge", "fire", "spike", "number", "flag", "equation_handle", "threshold_above_reset"}
EQUATION |= {"threshold_and_reset"}

# "callable: its arguments"; "self" is the object of a method, by default what the constructor's own call makes. A line
# for a room, or for the methods of a class (``Class.*``), holds for each callable in it, and ``*`` for all.
TABLE = r"""
*: x=rand(5, 2, 8), steps=5, model=net(), net=net(), module=net(), spikes=spikes(), targets=tensor([0, 2])
*: labels=torch.arange(6) % 3, images=images(), device="cpu", path="file.pt", folder=".", seed=0, dt=1e-3, state=None
*: events=recording(), encode=repeat, loss=loss.count_cross_entropy, work=work(), progress=False, download=False
*: cluster=cluster(), workload=workload(), batch_size=2, ranks=2, notebook="encodings", key="encodings.1", name="name"
*: project=project(), engine="eager", dtype=torch.float32, u=torch.randn(4), recipe=recipe(), message="no"
*: function=lambda: None, owner=neuron.LIF(), texts=["a dog", "a cat"], example=rand(5, 2, 8), step=neuron.LIF()
*: text="a dog", current=rand(2, 4), record=records.load("cpu_epyc_1thread"), root=find().root
bench.compare.Arguments: device="cpu"
bench.layer_times: net=models.FashionConvNet(2, 4), x=torch.rand(2, 1, 1, 28, 28), amp=False, repeats=3
bench.local: record=records.load("mnist_local_cpu_xeon")
bench.local.benchmark: arguments=bench.local.Arguments("cpu", neurons=4, passes=1, samples=16)
bench.places: work=lambda device: lambda: None, kind="training"
bench.record: record=contribution()
bench.scaling: record=records.load("scaling_cpu_epyc")
challenge: net=challenge.network(4), name="two neurons", n=8
challenge.Delays: steps=(0, 3)
challenge.Delays.forward: x=rand(5, 2, 2)
challenge.board: references=False
challenge.evaluate: x=challenge.samples(8)[0], y=challenge.samples(8)[1]
challenge.train: updates=1
course.Exercise: title="t", reference=abs, checks=[course.Check("c", print)]
course.attempt: answer=None
course.Certificate.save: self=course.certificate("spikes"), path=written("mine.html", "")
course.certificate: track="spikes"
course.export: name="Ada"
course.grade: exercise="encodings.1", candidate=None
data: name="digits", n=4
course.outcome: key="encodings.a", value=1
course.survey: when="before", answers={"step": 1}
course.predict: key="encodings.a"
data.augment.Shift.__call__: images=rand(2, 1, 8, 8)
data.events: t=tensor([0, 3, 9]), x=tensor([0, 1, 7]), y=tensor([2, 2, 7]), p=tensor([1, 0, 1]) > 0, size=(8, 8)
data.events.Events.where: mask=tensor([True, False, True])
data.events.Recordings: name="nmnist", source=[(recording(), 1)]
data.events.cochleagrams: samples=[(heard(), 1)], window=100, duration=400
data.events.collate: samples=[(recording(), 1), (recording(), 0)], steps=4
data.events.events_of: images=rand(2, 1, 8, 8), path=events.saccades(5)
data.events.frames_of: recordings=[recording(), recording()]
data.events.to_list: recordings=[recording(), recording()], steps=4
data.events.from_numpy: array=recording().numpy()
data.events.read_nmnist: path=written("digit.bin", bytes([3, 4, 128, 0, 9]))
data.events.record: images=rand(2, 1, 8, 8), path=events.saccades(5)
data.events.record_digits: samples=2
data.events.split_speakers: speakers=tensor([0, 1, 1, 2])
data.events.time_surface: tau=1000.0
data.events.to_frames: steps=4
data.events.voxel_grid: bins=4
data.sounds: name="rise"
data.sounds.cochlea: waveform=torch.sin(torch.arange(800.0)), rate=8000
data.sounds.read_wav: path=sound()
data.sounds.write_wav: path=written("mine.wav", ""), waveform=torch.sin(torch.arange(800.0)), rate=8000
data.sounds.record: per_class=1
device.Accelerated.*: self=device.accelerate(nn.Linear(8, 3), "cpu"), inputs=rand(5, 8)
device.Accelerated.__call__: input=rand(2, 8)
device.Precision.choose: self=device.Precision, device=CPU, amp=False
device.batch_process: model=nn.Linear(8, 3), inputs=rand(6, 8)
measure.memory_limit: limit=10**8
device.empty_cache: device="cpu"
device.move_tensors_to_device: obj=[ones(2), {"a": ones(1)}]
device.truncated: steps=2
device.untouched: device=CPU
encode: x_seq=rand(5, 2, 8), out_features=5
encode.spike_times: times=5 * rand(2, 3, 4)
engine: state=neuron.MembraneState(zeros(2, 8)), device=CPU, device_type="cpu"
engine.handle_of: engine="auto"
engine.limit_kept_memory: limit=2**30
engine.programs: equation=engine.equation_of(neuron.LIF(), neuron.MembraneState(zeros(2, 8)), torch.float32, CPU)
pages.page: net=net(), path=written("net.html", ""), steps=4, size=(1, 2, 4)
export.plain: state=net()(rand(5, 2, 8))[1]
pages.playground: path=written("playground.html", "")
pages.reader: path=written("net.html", "")
export.resting_state: program=export.export(net(), rand(5, 2, 8)), batch=2
hardware.chips.Chip.*: self=chips.get("A100"), key=next(iter(chips.get("A100").figures))
hardware.chips.compare: chips=["A100"]
hardware.chips.get: name="A100"
hardware.roofline.Assumptions.best_for: kind="ipu"
hardware.ipu: net=still(), model=torch.nn.Linear(8, 3), surrogate=surrogate.ATan()
hardware.ipu.WithLoss.*: self=ipu.WithLoss(torch.nn.Linear(8, 3), F.cross_entropy), x=rand(2, 8), y=tensor([0, 2])
hardware.ipu.check: example=(rand(2, 8), tensor([0, 2])), loss=F.cross_entropy
hardware.roofline.HoldoutNet.*: self=roofline.holdout_nets()[0], device=CPU
hardware.roofline.Machine.predict: self=machine()
hardware.roofline.Range: low=1.0, value=2.0, high=3.0
hardware.roofline.Range.at_least: self=roofline.Range(1.0, 2.0, 3.0), other=2.0
hardware.roofline.Range.of: self=roofline.Range, value=2.0
hardware.roofline.Work.of: self=work()
hardware.roofline.clock_of: device=CPU
hardware.roofline.times: candidates={"a": lambda: None}, clock=HostClock(), repeats=3
hardware.roofline.validate: machine=machine(), nets=roofline.holdout_nets()[:1], repeats=3
hardware.scaling: measured=[scaling.Measured(n, 0.1) for n in (1, 2)], source="s", step_s=0.1, cores=2, size=4e3
hardware.scaling.Cluster: ranks_per_node=4, inside=cluster().inside, between=cluster().between
hardware.scaling.Link: bandwidth=1e9, latency=1e-6
hardware.scaling.Workload: samples=16, gradient_bytes=4000
hardware.scaling.curve: ranks=[1, 2, 4]
hardware.scaling.fit_link: measured=[(2, 1000, 1e-4), (2, 10**6, 1e-3)]
interop: model=mlp((8, 6, 3), reset_mechanism="zero"), r=1.0
interop.EulerI: r=1.0
interop.ann_to_snn: model=nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3)), images=rand(5, 8)
interop.CountMaxPool: pool=nn.MaxPool1d(2)
interop.CountMaxPool.*: x=rand(2, 8)
interop.CountMaxPool.forward: x=rand(5, 2, 8)
interop.EulerIF: r=1.0, v_threshold=1.0
interop.EulerLI: tau=0.02, r=1.0
interop.EulerLIF: tau=0.02, r=1.0, v_threshold=1.0
interop.EulerCubaLI: tau_syn=0.02, tau_mem=0.02, r=1.0
interop.EulerCubaLIF: tau_syn=0.02, tau_mem=0.02, r=1.0, v_threshold=1.0
interop.Graph: layers={"a": nn.Linear(8, 8), "b": neuron.LIF()}, edges=[("input", "a"), ("a", "b"), ("b", "output")]
interop.Scale: scale=tensor([0.5, 2.0])
interop.Scale.forward: x=rand(5, 2)
interop.SumPool2d: kernel_size=2
interop.SumPool2d.forward: x=rand(2, 1, 8, 8)
interop.from_nir: graph=interop.to_nir(mlp((8, 6, 3), reset_mechanism="zero"), rand(5, 2, 8), 1e-3)
loss: membrane=rand(5, 2, 3), output=rand(5, 2, 3), layers=[spikes(), spikes()]
loss.pooled: population_size=3
measure: device=CPU, folder=Path(), forward=torch.exp, environment=dict(os.environ)
measure.race: contestants={"a": lambda: None}, repeats=3, warmup=1
models.Population: neurons=8, populations=2
models.Population.*: x=rand(2, 8), features=rand(2, 8), spikes=spikes(5, 2, 8)
models.Population.statistics: state=models.Population(8, 2)(spikes(5, 2, 8))[1]
models.StatisticalSNN: inputs=8, hidden=6, classes=3, populations=2
models.StatisticalSNN.*: self=models.StatisticalSNN(8, 6, 3, populations=2, steps=5), x=rand(2, 8)
neuron.Leaky: beta=0.9
neuron.Readout: beta=0.9
neuron.Synaptic: alpha=0.8, beta=0.9
neuron.Alpha: alpha=0.9, beta=0.8
neuron.OneToOne: neuron=neuron.LIF()
neuron.Refractory: neuron=neuron.LIF(), steps=2
neuron.Recurrent: neuron=neuron.LIF(), features=8
neuron.Neuron.*: self=neuron.LIF()
neuron.Neuron.membrane: state=neuron.MembraneState(zeros(2, 8))
neuron.Neuron.initial_state: x=rand(2, 8)
neuron.Izhikevich.initial_state: x=rand(2, 8)
neuron.beta_of: tau=0.02
nn: module=nn.Linear(8, 3)
nn.Once.*: self=snnkit.nn.Once(nn.Linear(8, 3))
nn.PerStep.*: self=snnkit.nn.PerStep(*(nn.Linear(8, 3) for _ in range(5)))
nn.Once: modules=[nn.Linear(8, 3)]
nn.PerStep: modules=[nn.Linear(8, 3)]
nn.TimeBatched: modules=[nn.Linear(8, 3)]
nn.Residual: main=nn.Linear(8, 8), skip=nn.Linear(8, 8)
nn.Sequential.*: self=net()
nn.TimeBatched.*: self=snnkit.nn.TimeBatched(nn.Linear(8, 3))
nn.Voting: voters=4
plasticity: pre=spikes(2, 4), post=spikes(2, 3), weight=rand(3, 4), lead="B", counts=rand(6, 4), classes=3
plasticity.CompetitiveLayer.*: n_pre=4, n_post=3, spikes=spikes(5, 2, 4), state=self.initial_state(4, 3)
plasticity.Convolution.*: pre=spikes(2, 1, 6, 6), post=spikes(2, 2, 4, 4), weight=rand(2, 1, 3, 3)
plasticity.Convolution.outputs: pre=(2, 1, 6, 6), kernel=(2, 1, 3, 3)
plasticity.LocalRun.*: self=locally()
plasticity.PairSTDP.window: lag=0.01
plasticity.RewardSTDP.run: pre=spikes(5, 2, 4), post=spikes(5, 2, 3), reward=rand(5, 2)
plasticity.RewardSTDP.step: reward=rand(2)
plasticity.learn_locally: neurons=4, passes=1, samples=16
plasticity.similarity: weight=rand(4, 8)
plasticity.vote: assigned=tensor([0, 1, 2, 0])
records.load: name="cpu_epyc_1thread"
records.parse: data=json.dumps(records.load("cpu_epyc_1thread")).encode()
records.read: path=records.write("record.json", records.load("cpu_epyc_1thread"))
surrogate.Surrogate.*: self=surrogate.ATan()
sweep: folder=swept(), manifest=sweep_cases.asked(Path.cwd())
sweep.record: score=0.5
sweep.run: sweep=sweep_cases.asked(Path.cwd()), quiet=True
text.SparseSpikes.of: self=text.SparseSpikes
text.SparseSpikes.linear: self=text.SparseSpikes.of(spikes(5, 8)), weight=rand(3, 8)
text.SpikingEmbedding: vocabulary=text.Vocabulary(["dog", "cat"])
text.SpikingEmbedding.*: self=words(), numbers=tensor([1, 2]), a="dog", b="cat", words=["dog"], vectors=rand(2, 4)
text.SpikingEmbedding.fit: epochs=1, texts=["dog cat bread", "soup cat dog"]
text.SpikingEmbedding.most_similar: text="dog", k=2
text.SpikingEmbedding.nearest: k=2
text.SpikingEmbedding.load: self=text.SpikingEmbedding, path=words().save("words.pt")
text.Vocabulary: words=["dog", "cat"]
text.Vocabulary.build: self=text.Vocabulary
text.Vocabulary.number: word="dog"
text.agreement: embedding=words(), groups={"animal": ["dog", "cat"], "food": ["bread", "soup"]}
text.corpus: sentences=5
tools.notebook_client: notebook=notebook(), outputs=notebook().cells[-1].outputs
tools.notebook_client.problem_of: cell=1, content={"ename": "E", "evalue": "v", "traceback": []}
tools.pair: name="00_first"
tools.parameters: wanted={"A": 2}, known={"A": Parameter("A", int, 1)}, value=2, notebook=notebook()
tools.parameters.Parameter.*: self=Parameter("A", int, 1), text="2"
tools.project.Project.*: self=project(), name="00_first"
tools.run_report: out=Path(), results=[runner.Result("n", "ok", 1.0, 1.0)], environment={}
tools.run_report.render_copy: out=written("notebooks/a.ipynb", nbformat.writes(notebook())).parents[1], name="a"
tools.runner: at_once=1, folder="build", names=["00_first"], wanted={}, out=Path()
tools.runner.in_parallel: function=abs, items=[1], on_result=print, stop=lambda: None
tools.site: path=written("00_first.ipynb", nbformat.writes(notebook())), text="x", markdown="a"
tools.site.glued: page="<p>a</p>"
tools.site.narrow: drawing="<svg><defs></defs>\n<rect/>\n<text>one</text>\n</svg>", rows=["one"]
train: optimizer=torch.optim.SGD(net().parameters()), history=filled(), data=samples()
train.History.from_dict: self=train.History, values=filled().to_dict()
train.History.check_continued: metric=None, regularised=False
train.OneCycle: lr=0.1, updates=4
train.OneCycle.*: info=train.BatchInfo(1, 1, 2, 4, zeros(3), zeros(2)), update=1
train.RankInfo.*: devices=1, nodes=1
train.RankInfo.from_environment: self=train.RankInfo
train.Recipe: about="", dataset="digits", network="dense", hidden=6, epochs=1, optimizer="adam", lr=0.1, loss="rate_mse"
train.Recipe.*: model=recipe().build(), device=CPU, samples=10
train.diagnose: model=mlp((64, 6, 3)), samples=samples()[0], targets=samples()[1], optimizer=None
train.evaluate: model=mlp((64, 6, 3))
train.fit: model=mlp((64, 6, 3)), train_data=samples()
train.launch: command=["true"], processes=1
train.load_checkpoint: path=checkpoint()
train.lit: global_batch_size=2, model=mlp((64, 6, 3)), samples=images(), train=samples()
train.lit.AtomicCheckpointIO.*: path=checkpoint("lit.ckpt"), checkpoint={"a": ones(2)}
train.lit.DigitsDataModule: global_batch_size=2
train.lit.FashionMNISTDataModule: global_batch_size=2
train.lit.MNISTDataModule: global_batch_size=2
train.lit.TensorDataModule: global_batch_size=2
train.lit.ResumableCheckpoint: flags=lit.SignalFlags(None), path=Path("run.ckpt"), every=None
train.lit.ResumableDDP: network=net(), timeout=10.0
train.lit.SharedBatches.set_epoch: epoch=1
train.lit.SharedBatches.smallest_share: batches=2.0
train.lit.SignalFlags: requeue_signal=None
train.lit.SpikingModule.*: samples=rand(2, 1, 8, 8), batch=rand(2, 1, 8, 8), batch_idx=0
train.lit.SpikingModule.load_from_checkpoint: self=lit.SpikingModule, checkpoint_path=module_file()
train.recipes.get: name="digits"
train.slurm: command="python train.py", text=SCRIPT, script=SCRIPT, request=slurm.Request("python train.py")
train.slurm.seconds: text="01:00:00"
recording.ablate: module=neuron.LIF(), mask=ones(8)
viz: figure=viz.figures.raster(spikes(5, 3)), history=filled(), command="python train.py", script=SCRIPT, total_epochs=2
viz.LivePanel.follow: update=train.BatchInfo(1, 1, 2, 4, zeros(3), zeros(5, 2, 3))
viz.listing: texts={"a": "b"}
viz.generated: cell=neuron.LIF()
viz.embed: path=written("page.html", "<p>")
viz.landscape: loss=zeros(3, 3), gradient=zeros(2, 3, 3), low=0.0, high=1.0, target=[0.1, 0.2]
viz.listen: trains={"a": spikes(5, 3)}
viz.explore: fn=lambda a: viz.figures.raster(spikes(5, 3)), a=(0.0, 1.0)
viz.frames: fn=lambda a: viz.figures.raster(spikes(5, 3)), values=[1, 2]
viz.figures.Marked.note: self=viz.figures.Marked("l", "measured", 1.0), unit="ms"
viz.figures.spacing: values=[0.5, 1.0], dtype="float16"
viz.explorers: bill=lambda *_: (1, 2), rate=2e10, bandwidth=1e10, cpu=(0.01, 1e3)
viz.explorers: answers=tensor([0] * 6), classes=list("abc"), layers={"a": 2}, values={"g": rand(3)}
viz.explorers.decision: net=mlp((64, 4, 3)), encode=functools.partial(snnkit.encode.repeat, steps=3)
viz.explorers.feature_maps: net=models.FashionConvNet(2, 4, size=8)
workshop.bundle.pack: target=Path("b.zip"), top="b", content={"a.txt": b"a"}
workshop.bundle.verify: place=packed()
workshop.wheels.check: platforms=["macos"], pythons=["3.12"]
workshop.wheels.pinned: lock=written("lock.txt", "a==1 ; os_name == 'nt'"), platform="windows", python="3.12.0"
workshop.handouts: notebook=notebook(), names=["00_first"], out=Path("solved"), echo=print
workshop.handouts.outline: notebook=slides()
workshop.handouts.slides: path=written("a.ipynb", nbformat.writes(slides()))
workshop.preflight: lines=[doctor.Line("Python", doctor.RED, "2.7", "newer")], texts={"a": VERDICT}
workshop.preflight.from_path: path=written("verdict.txt", VERDICT)
workshop.preflight.text: room=preflight.from_texts({"a": VERDICT})
workshop.minutes: project=find(), name="00_preflight"
workshop.timetable: project=find(), folder="workshop/schedules", name="half_day", known={"00_preflight": 10}
workshop.timetable.rescheduled: text="| a |\\n", project=find()
workshop.timetable.tables: text="| a |\n|---|\n| 1 |\n", columns=["a"]
workshop.timetable.timings: page="## Demo script (5 min)\n"
"""
CPU = torch.device("cpu")
SCRIPT = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\nsrun python train.py\n"
VERDICT = preflight.check("ada", [doctor.Line("Python", doctor.GREEN, "3.12")]).line()


# --- what the table calls ---------------------------------------------------------------------------------------------


def net() -> Any:
    return mlp((8, 6, 3))


def still() -> Any:
    """A network for pictures that are not sequences."""
    return mlp((8, 6, 3), flatten=False)


def spikes(*shape: int) -> torch.Tensor:
    return (rand(*(shape or (5, 2, 3))) > 0.5).float()


def images() -> torch.Tensor:
    return torch.randint(256, (6, 1, 8, 8), dtype=torch.uint8)


def repeat(x: torch.Tensor) -> torch.Tensor:
    return x.unsqueeze(0).expand(5, *x.shape)


def recording() -> events.Events:
    columns = [tensor([0, 300, 900]), tensor([0, 1, 7]), tensor([2, 2, 7]), tensor([True, False, True])]
    return events.Events(*columns, size=(8, 8), duration=1000)


def heard() -> events.Events:
    columns = [tensor([0, 300, 900]), tensor([0, 1, 7]), tensor([0, 0, 0]), tensor([True, True, True])]
    return events.Events(*columns, size=(1, 8), polarities=1)


def sound() -> Path:
    with wave.open("sound.wav", "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(range(200)) * 4)
    return Path("sound.wav")


def work() -> roofline.Work:
    return roofline.tutorial(4, 16, 5)


def cluster() -> scaling.Cluster:
    return scaling.Cluster("c", 4, scaling.Link("l", 1e9, 1e-6, "s"), scaling.Link("b", 1e9, 1e-5, "s"), "s", nodes=4)


def workload() -> scaling.Workload:
    return scaling.Workload("w", 16, 0.1, 4000)


def written(name: str, content: bytes | str) -> Path:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return Path(name)


def project() -> Any:
    return tiny_project.make(Path.cwd(), {"00_first": "print(1)"})


def notebook() -> nbformat.NotebookNode:
    return pair.notebook(project(), "00_first")


def slides() -> nbformat.NotebookNode:
    cell = nbformat.v4.new_markdown_cell("# A slide", metadata={"tags": ["slide"]})
    return nbformat.v4.new_notebook(cells=[cell])


def samples() -> tuple[torch.Tensor, torch.Tensor]:
    return images(), torch.arange(6) % 3


def words() -> text.SpikingEmbedding:
    return text.SpikingEmbedding(text.Vocabulary(["dog", "cat", "bread", "soup"]), 4, 5)


def checkpoint(path: str = "run.pt") -> Path:
    if path == "run.pt":
        return train.save_checkpoint(path, net(), epoch=1)
    lit.AtomicCheckpointIO().save_checkpoint({LIGHTNING_KEY: "2.5"}, path)
    return Path(path)


def module_file() -> Path:
    weights = lit.SpikingModule(recipe().build()).state_dict()
    content = {LIGHTNING_KEY: "2.6.6", "state_dict": weights, "snnkit_recipe": recipe().settings()}
    lit.AtomicCheckpointIO().save_checkpoint(content, "module.ckpt")
    return Path("module.ckpt")


def recipe() -> train.Recipe:
    return recipes.get("digits", epochs=1, samples=12, hidden=6, steps=3, batch_size=6)


def locally() -> plasticity.LocalRun:
    return plasticity.learn_locally("digits", neurons=4, passes=1, samples=16, progress=False, device="cpu")


def filled() -> train.History:
    return train.History([0.5], [0.6], [0.5], [0.6], [0.1], [1.0], [100.0])


def swept() -> Path:
    manifest = sweep.load(sweep_cases.asked(Path.cwd()))
    with mock.patch.object(runner, "Kernels", sweep_cases.without_kernels(sweep_cases.Fake())):
        sweep.run(manifest, quiet=True)
    return manifest.out


def packed() -> Path:
    bundle.pack(Path("b.zip"), "b", {"a.txt": b"a"})
    return Path("b.zip")


# --- what is public ---------------------------------------------------------------------------------------------------


def module(room: str) -> Any:
    """The module of a room."""
    home = "snnkit.lab" if room.partition(".")[0] in snnkit.lab.__all__ else "snnkit"
    return importlib.import_module(f"{home}.{room}")


def public(room: str) -> list[str]:
    """The public names of a room that it defines itself, in ``__all__`` if it has one."""
    home = module(room)
    inside = home.__name__ + ("." if hasattr(home, "__path__") else "")

    def own(thing: Any) -> bool:
        place = getattr(thing, "__module__", None) or ""
        return place == home.__name__ or (inside.endswith(".") and place.startswith(inside))

    if room.startswith("bench."):  # the other names are parts of a suite
        return [name for name in ("Arguments", "benchmark", "tables") if own(getattr(home, name, None))]
    names = getattr(home, "__all__", [name for name in vars(home) if not name.startswith("_")])
    return sorted(name for name in names if own(getattr(home, name)))


def checks_nothing(kind: type) -> bool:
    """Whether a class only holds what it is given, or is an exception, or only an interface."""
    plain = dataclasses.is_dataclass(kind) and not hasattr(kind, "__post_init__")
    protocol = getattr(kind, "_is_protocol", False)
    return plain or protocol or issubclass(kind, (BaseException, tuple)) or inspect.isabstract(kind)


def callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public callable by its name: "encode.poisson", "data.events.Events", "data.events.Events.where"."""
    seen: set[int] = set()
    for room in ROOMS:
        for name in public(room):
            thing = getattr(module(room), name)
            if not callable(thing) or id(thing) in seen or not thing.__module__.startswith("snnkit"):
                continue
            seen.add(id(thing))
            if not inspect.isclass(thing) or not checks_nothing(thing):
                yield f"{room}.{name}", thing
            if inspect.isclass(thing) and (dataclasses.is_dataclass(thing) or not checks_nothing(thing)):
                yield from ((f"{room}.{name}.{method}", function) for method, function in methods(thing))


def methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods of a class that take arguments."""
    inner = HOOKS | (EQUATION if issubclass(kind, neuron.Neuron) else set())
    for name, function in vars(kind).items():
        function = getattr(function, "__func__", function)
        known = name == "__call__" or not (name.startswith(("_", "on_")) or name in inner)
        if known and inspect.isfunction(function) and len(inspect.signature(function).parameters) > 1:
            yield name, function


def called(name: str) -> bool:
    return name not in NOT_CALLED and name.rpartition(".")[0] not in NOT_CALLED


def is_method(name: str) -> bool:
    return name.split(".")[-2][:1].isupper()


def parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())[is_method(name) :]


# --- valid calls ------------------------------------------------------------------------------------------------------


@functools.cache
def table() -> dict[str, dict[str, Any]]:
    """The table: by callable, and by argument, a compiled expression."""
    lines: dict[str, dict[str, Any]] = {}
    for line in TABLE.strip().splitlines():
        name, _, arguments = line.partition(": ")
        call = ast.parse(f"f({arguments})", mode="eval").body
        assert isinstance(call, ast.Call)
        own = {str(key.arg): compile(ast.Expression(key.value), name, "eval") for key in call.keywords}
        lines[name] = lines.get(name, {}) | own
    lines |= {f"viz.figures.{name}": {} for name in every_figure.EXAMPLES}
    return lines


@functools.cache
def known() -> dict[str, Any]:
    """What the expressions of the table may name: what this file imports and defines, and all rooms."""
    return {room: getattr(home, room) for home in (snnkit, snnkit.lab) for room in home.__all__} | globals()


def sources(name: str) -> dict[str, Any]:
    """Expressions for arguments of one callable, those of its own line before those of its class and its room."""
    room, _, _ = name.rpartition(".")
    scopes = [f"{room}.*", room.rpartition(".")[0]] if is_method(name) else [room]
    found = dict(table()["*"])
    for scope in (*reversed(scopes), name):
        found |= table().get(scope, {})
    return found


def needed(function: Callable[..., Any], name: str) -> list[str]:
    """The arguments that a valid call has: those without defaults, and those of its own line."""
    own = table().get(name, {})
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    takes = parameters(function, name)
    required = [p.name for p in takes if (p.default is p.empty and p.kind not in optional) or p.name in QUIET]
    return [*dict.fromkeys([*required, *(key for key in own if key != "self")])]


def valid(name: str, function: Callable[..., Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
    """What is called, bound to its object, and the arguments by their names."""
    scope, room, names = sources(name), name.rpartition(".")[0], dict(known())
    wanted = needed(function, name)
    if is_method(name):
        if "self" in scope:
            made = eval(scope["self"], names)
        else:
            kind = getattr(module(room.rpartition(".")[0]), room.rpartition(".")[2])
            make, arguments = valid(room, kind)
            made = make(**arguments)
        names["self"], function = made, getattr(made, name.rpartition(".")[2])
    elif room == "viz.figures" and (example := every_figure.EXAMPLES.get(name.rpartition(".")[2])):
        with mock.patch.object(viz.figures, name.rpartition(".")[2]) as figure:
            example()
        call = inspect.signature(function).bind(*figure.call_args.args, **figure.call_args.kwargs)
        return function, dict(call.arguments)
    return function, {key: eval(scope[key], names) for key in wanted}


def call(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """The call, with what can't be given by name given by place."""
    arguments, places = dict(arguments), []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.name in arguments:
            places.append(arguments.pop(parameter.name))
        if parameter.kind is parameter.VAR_POSITIONAL:
            places.extend(arguments.pop(parameter.name, ()))
    return function(*places, **arguments)
