"""The mistakes that ``slurm.check`` finds, each on its line, and what it lets pass."""

import pytest

from snnkit.train import slurm
from snnkit.train.slurm import syntax
from snnkit.train.slurm.syntax import array

GOOD = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=02:00:00
#SBATCH --signal=SIGUSR1@90
#SBATCH --requeue
#SBATCH --open-mode=append

export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))

srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" \\
  snnkit train workshop --checkpoint run.pt --resume --nodes 2 --devices 4
"""


STEP = GOOD[GOOD.index("srun") : -1]


def found(text):
    return [(problem.line, problem.rule) for problem in slurm.check(text)]


def without(line):
    assert f"{line}\n" in GOOD
    return GOOD.replace(f"{line}\n", "")


def instead(was, becomes):
    assert was in GOOD
    return GOOD.replace(was, becomes)


def test_nothing_is_found_in_a_good_script():
    assert slurm.check(GOOD) == []


MISTAKES = {
    # Of form.
    "no shebang": (GOOD.removeprefix("#!/bin/bash\n"), 1, "shebang"),
    "late": (f"{GOOD}#SBATCH --mem=4G\n", 16, "late"),
    "lower case": (instead("#SBATCH --cpus", "#sbatch --cpus"), 5, "comment"),
    "a space": (instead("#SBATCH --cpus", "# SBATCH --cpus"), 5, "comment"),
    "spaces around =": (instead("--cpus-per-task=8", "--cpus-per-task = 8"), 5, "spaces"),
    "misspelt": (instead("--cpus-per-task=8", "--cpu-per-tasks=8"), 5, "spelling"),
    "time": (instead("02:00:00", "2h"), 6, "value"),
    "signal": (instead("SIGUSR1@90", "SIGUSER1@90"), 7, "value"),
    "a variable": (instead("--requeue", "--requeue --output=$HOME/log"), 8, "variable"),
    "twice": (instead("--requeue", "--requeue --nodes=2"), 8, "twice"),
    "Windows": (GOOD.replace("\n", "\r\n"), 1, "carriage"),
    "spaces behind a backslash": (instead('CPUS_PER_TASK" \\\n', 'CPUS_PER_TASK" \\ \n'), 14, "continuation"),
    "megabytes": (instead("--requeue", "--requeue --mem=64"), 8, "memory"),
    "conda without its hook": (instead("export MASTER_PORT", "conda activate snn\nexport MASTER_PORT"), 12, "conda"),
    # Of number.
    "too few tasks": (instead("--ntasks-per-node=4", "--ntasks-per-node=1"), 3, "devices"),
    "short option": (instead("--gpus-per-node=4", "-G 4"), 3, "devices"),
    "no tasks per node": (without("#SBATCH --ntasks-per-node=4"), None, "tasks"),
    "only ntasks": (instead("--ntasks-per-node=4", "--ntasks=8"), 3, "tasks"),
    "tasks that disagree": (instead("-node=4\n#SBATCH --gpus", "-node=4 --ntasks=7\n#SBATCH --gpus"), 3, "tasks"),
    "devices": (instead("--devices 4", "--devices 2"), 14, "devices"),
    "nodes": (instead("--nodes 2", "--nodes 4"), 14, "nodes"),
    "background": (instead("--devices 4\n", "--devices 4 &\n"), 15, "background"),
    "GPUs per task": (instead("--gpus-per-node=4", "--gpus-per-task=1"), 4, "gpus"),
    "no GPUs": (without("#SBATCH --gpus-per-node=4").replace("--resume", "--resume --device cuda"), 13, "gpus"),
    "cores": (instead('--cpus-per-task="$SLURM_CPUS_PER_TASK" ', ""), 14, "cores"),
    "torchrun": (instead("snnkit train", "torchrun -m snnkit.lab.cli train"), 3, "devices"),
    "hidden GPUs": (instead("srun", "export CUDA_VISIBLE_DEVICES=0\n\nsrun"), 14, "gpus"),
    "hidden GPUs, for one step": (instead("srun", "CUDA_VISIBLE_DEVICES=0,1 srun"), 14, "gpus"),
    "no GPU": (instead("srun", 'export CUDA_VISIBLE_DEVICES=""\n\nsrun'), 14, "gpus"),
    "one rank": (instead("srun", "export RANK=$SLURM_PROCID\nsrun"), 14, "rank"),
    "one rank in quotes": (instead("snnkit", 'env "GPU=${SLURM_LOCALID}" snnkit'), 14, "rank"),
    # Of meeting.
    "fixed port": (instead("$((20000 + SLURM_JOB_ID % 10000))", "29500"), 12, "port"),
    "growing port": (instead("SLURM_JOB_ID % 10000", "SLURM_JOB_ID"), 12, "port"),
    "hidden port": (instead("export MASTER_PORT", "MASTER_PORT"), 12, "export"),
    "local address": (instead("ADDR=$(scontrol", "ADDR=localhost  # $(scontrol"), 11, "address"),
    "own address": (instead("  snnkit", "  bash -c 'MASTER_ADDR=$(hostname) exec python t.py' snnkit"), 14, "address"),
    "no environment": (instead("--requeue", "--requeue --export=NONE"), 8, "export"),
    # Of survival.
    "signal ignored": (instead("srun", "trap '' USR1 EXIT\nsrun"), 14, "signal"),
    "signal ignored by its number": (instead("srun", "trap '' TERM 10\nsrun"), 14, "signal"),
    "ignored by the shell": (instead("=SIG", "=B:").replace("srun", 'trap "" SIGUSR1\nsrun'), 14, "signal"),
    "requeue refused": (without("#SBATCH --open-mode=append").replace("--requeue", "--no-requeue"), 7, "requeue"),
    "checkpoint on one node": (instead("run.pt", "/tmp/run.pt"), 14, "checkpoint"),
    "checkpoint in a variable": (instead("run.pt", "$D").replace("srun", "D=$TMPDIR/a\nsrun"), 15, "checkpoint"),
    "checkpoint with a new name": (instead("run.pt", '"run-$(date +%F).pt"'), 14, "resume"),
    "checkpoint of an array": (instead("--requeue", "--requeue --array=0-9"), 14, "checkpoint"),
    "two steps, one checkpoint": (f"{GOOD[:-1]} &\n{STEP} &\nwait\n", 16, "checkpoint"),
    "no signal": (without("#SBATCH --signal=SIGUSR1@90"), None, "signal"),
    "no time": (without("#SBATCH --time=02:00:00"), 6, "time"),
    "signal before the start": (instead("SIGUSR1@90", "SIGUSR1@7200"), 7, "signal"),
    "minutes for hours": (instead("02:00:00", "02:00"), 7, "signal"),
    "signal to the shell": (instead("SIGUSR1@90", "B:SIGUSR1@90"), 7, "signal"),
    "another signal": (instead("SIGUSR1@90", "SIGUSR2@90"), 7, "signal"),
    "no requeue": (without("#SBATCH --requeue"), None, "requeue"),
    "log": (without("#SBATCH --open-mode=append"), None, "append"),
    "bad exit": (instead("--kill-on-bad-exit=1 ", ""), 14, "kill"),
    "no resume": (instead("--resume ", ""), 14, "resume"),
    "no checkpoint": (instead("--checkpoint run.pt --resume ", ""), 14, "resume"),
}


SWEEP = """\
#!/bin/bash
#SBATCH --array=1-8%4
#SBATCH --nodes=1 --ntasks-per-node=1 --cpus-per-task=4
#SBATCH --time=01:00:00
#SBATCH --signal=SIGUSR1@90
#SBATCH --requeue --open-mode=append
#SBATCH --output=%x-%A_%a.out

export OMP_NUM_THREADS=1
srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" snnkit sweep xor.yaml --out results --workers 4
"""
OF_ARRAYS = {
    "one task": ("1-8%4", "8", (2, "array")),
    "one task at a time": ("1-8%4", "8%4", (2, "array")),
    "above MaxArraySize": ("1-8%4", "0-1001", (2, "array")),
    "above it by a step": ("1-8%4", "1,2-2002:500", (2, "array")),
    "backwards": ("1-8%4", "8-1", (2, "value")),
    "a variable": ("1-8%4", "1-$N", (2, "value")),
    "spaces": ("1-8%4", '"1-8 % 4"', (2, "value")),
    "one log": ("%x-%A_%a", "%x-%A", (7, "array")),
    "one file of errors": ("%x-%A_%a.out", "%x-%A_%a.out --error=errors.txt", (7, "array")),
    "a folder on one node": ("--out results", "--out /tmp/results", (10, "array")),
    "a folder on one node, of a variable": ("--out results", "--out=$TMPDIR/results", (10, "array")),
    "a folder for each task": ("--out results", "--out results/$SLURM_ARRAY_TASK_ID", (10, "array")),
    "a folder for each job": ("--out results", "--out results/$SLURM_JOB_ID", (10, "array")),
    "another folder each time": ("--out results", '--out "results/$(date +%F)"', (10, "array")),
    "another signal": ("SIGUSR1@90", "SIGUSR2@90", (5, "signal")),
    "requeue refused": ("--requeue --open-mode=append", "--no-requeue", (5, "requeue")),
}


@pytest.mark.parametrize("name", OF_ARRAYS)
def test_each_mistake_in_an_array_of_a_sweep_is_found_alone(name):
    was, becomes, problem = OF_ARRAYS[name]
    assert was in SWEEP and found(SWEEP) == []
    assert found(SWEEP.replace(was, becomes)) == [problem]


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("1-8%4", "1,3,7"),
        ("1-8%4", "0-1000"),
        ("1-8%4", "0-9:3%2"),
        ("--array=1-8%4", "-a 1-8"),
        ("#SBATCH --array=1-8%4", "# MaxArraySize is 10001 here\n#SBATCH --array=1-5000"),
        ("%x-%A_%a", "%x-%j"),
        ("%x-%A_%a", "logs/%4a"),
        ("#SBATCH --output=%x-%A_%a.out\n", ""),  # SLURM's own name has both numbers
        ("--out results", "--out /scratch/ada/results"),
        ("#SBATCH --array=1-8%4\n", ""),
    ],
)
def test_other_good_arrays_pass(was, becomes):
    assert was in SWEEP
    assert found(SWEEP.replace(was, becomes)) == []


def test_indices_of_an_array_are_counted_as_sbatch_does():
    known = {"8": (1, 8), "1-8%4": (8, 8), "0-8:4": (3, 8), "1-3,7,10-12": (7, 12), "5-5": (1, 5), "1-8%": (8, 8)}
    assert {text: array(text) for text in known} == known
    for text in ("", "a", "-1", "1-", "3-1", "1-8:0", "1--8", "1-8%x", "1 - 8", "1;2"):
        with pytest.raises(ValueError, match="array must be indices, such as 1-8, 1-8%4"):
            array(text)


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_is_found_alone_and_on_its_line(name):
    text, line, rule = MISTAKES[name]
    assert found(text) == [(line, rule)]


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ("-l", ["label"]),
        ("-v -l -n 4", ["verbose", "label", "ntasks"]),
        ("-O -s", ["overcommit", "oversubscribe"]),
        ("-K -u", ["kill-on-bad-exit", "unbuffered"]),
        ("-W 30", ["wait"]),
        ("--wait 30", ["wait"]),
    ],
)
def test_options_of_srun_without_a_value(options, read):
    (step,) = slurm.parse(f"srun {options} python t.py").steps
    assert [option.name for option in step.options] == read and step.program == ["python", "t.py"]


def test_a_long_script_is_taken_apart_once(monkeypatch):
    taken = []
    step = syntax._step
    monkeypatch.setattr(syntax, "_step", lambda command: taken.append(command) or step(command))
    text = "#!/bin/bash\n#SBATCH --ntasks=4\n" + "srun snnkit train digits --checkpoint $X\npython a.py &\n" * 50
    assert len(found(text)) > 50 and len(taken) <= 3 * 100


def test_a_program_without_srun_is_found():
    start = GOOD.index("srun")
    text = f"{GOOD[:start]}python --version\npython train.py --devices 4\n"
    assert found(text) == [(15, "srun")]


@pytest.mark.parametrize("prefix", ["time", "nohup", "apptainer exec a.sif", "env A=1", "exec"])
def test_what_stands_before_the_program_does_not_hide_it(prefix):
    start = GOOD.index("srun")
    assert found(f"{GOOD[:start]}{prefix} python train.py --devices 4\n") == [(14, "srun")]
    assert found(f"{GOOD}{prefix} ls python\n") == []


def test_a_program_of_one_process_needs_srun_for_the_signal_only():
    alone = "#!/bin/bash\n#SBATCH --time=10 --requeue --open-mode=append{}\npython train.py\n"
    assert found(alone.format(" --signal=USR1@60")) == [(3, "srun")]
    assert found(alone.replace("--requeue", "--no-requeue").format("")) == []


def test_problems_come_in_the_order_of_lines_and_what_is_missing_last():
    text = instead("--ntasks-per-node=4", "--ntasks-per-node=1").replace("02:00:00", "01:00")
    text = text.replace("$((20000 + SLURM_JOB_ID % 10000))", "29500")
    assert found(text) == [(3, "devices"), (7, "signal"), (12, "port")]
    text = without("#SBATCH --requeue").replace("run.pt --resume", "run.pt")
    assert found(text) == [(13, "resume"), (None, "requeue")]
    assert str(slurm.check(text)[-1]).startswith("script: The script does not say whether")


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("--nodes=2", "-N 2"),
        ("--ntasks-per-node=4", "--ntasks-per-node=4 --ntasks=8"),
        ("--gpus-per-node=4", "--gres=gpu:4"),
        ("--gpus-per-node=4", "--gpus-per-node=a100:4"),
        ("--signal=SIGUSR1@90", "--signal=USR1@90"),
        ("--time=02:00:00", "-t 120"),
        ("--time=02:00:00", "--time=0"),
        ("--requeue", "--requeue\n##SBATCH --late"),
        ("$((20000 + SLURM_JOB_ID % 10000))", "$((10000 + ${SLURM_JOB_ID: -4}))"),
        ("$((20000 + SLURM_JOB_ID % 10000))", "$(expr 10000 + $(echo -n $SLURM_JOBID | tail -c 4))"),
        ("--kill-on-bad-exit=1", "-K"),
        ("--devices 4\n", "--devices 4 &\nwait\n"),
        ("  snnkit", "  apptainer exec --nv a.sif \\\n  snnkit"),
        ("srun --kill", "X=1 srun --kill"),
        ('--cpus-per-task="$SLURM_CPUS_PER_TASK"', "-c 8"),
    ],
)
def test_other_ways_of_writing_it_well_pass(was, becomes):
    assert slurm.check(instead(was, becomes)) == []


def test_a_job_that_gives_up_needs_no_signal_no_log_and_no_resume():
    text = without("#SBATCH --signal=SIGUSR1@90").replace("#SBATCH --open-mode=append\n", "")
    text = text.replace("--requeue", "--no-requeue").replace("--checkpoint run.pt --resume ", "")
    assert found(text) == []


# Written by people for clusters of theirs, and correct.
TORCHRUN = """\
#!/bin/bash -l
#SBATCH -J snn-large
#SBATCH -A k12345 -p gpu
#SBATCH -N 4
#SBATCH --ntasks-per-node=1        # torchrun starts the others
#SBATCH --gres=gpu:a100:4
#SBATCH -c 64
#SBATCH -t 1-00:00:00
#SBATCH --mem=0
#SBATCH --signal=USR1@300
#SBATCH --requeue --open-mode=append
#SBATCH -o logs/%x-%j.out

set -euo pipefail
module purge
module load cuda/12.4
conda activate snn
srun nvidia-smi -L
LAUNCH="apptainer exec --nv $WORK/snn.sif torchrun"
head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

srun --cpus-per-task="$SLURM_CPUS_PER_TASK" --kill-on-bad-exit=1 $LAUNCH \\
    --nnodes "$SLURM_NNODES" --nproc-per-node 4 \\
    --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$head_node:29400" \\
    train.py --checkpoint-dir "$SCRATCH/runs/$SLURM_JOB_ID"
"""
ARRAY = """\
#!/bin/bash
#SBATCH --job-name=seeds
#SBATCH --array=0-9%4
#SBATCH --gpus=1 --cpus-per-task=8 --mem-per-cpu=4000M
#SBATCH --time=04:00:00
#SBATCH --no-requeue

source ~/miniconda3/etc/profile.d/conda.sh
conda activate snn
tar -xf $HOME/data/shd.tar -C $TMPDIR   # quicker to read from there
SEED=$((SLURM_ARRAY_TASK_ID + 100))
OUT=$WORK/seeds/$SLURM_ARRAY_TASK_ID
mkdir -p $OUT
python train.py --seed $SEED --data $TMPDIR/shd --ckpt_path $OUT/last.ckpt
"""
WRAPPED = """\
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 --gpus-per-node=2
#SBATCH --time=02:00:00 --signal=USR1@120 --requeue --open-mode=append
#SBATCH --export=NONE
unset SLURM_EXPORT_ENV
export MASTER_ADDR=$(hostname) MASTER_PORT=$((15000 + SLURM_JOB_ID % 20000))
export WORLD_SIZE=$SLURM_NTASKS
cat > run.sh << 'EOF'
export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID
python train.py --devices 8
EOF
srun --kill-on-bad-exit=1 bash run.sh
srun -K1 bash -c 'export RANK=$SLURM_PROCID CUDA_VISIBLE_DEVICES=$SLURM_LOCALID; exec python test.py'
"""
FORWARDED = """\
#!/bin/bash
#SBATCH --time=8:00:00
#SBATCH --signal=B:USR1@180
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --gpus-per-node=1 --mem-per-gpu=60G
set -- $((1 << BITS)) "<<END" <<< "$PATH"  # no documents
save_and_requeue() {
  kill -USR1 "$training"
  wait "$training"
  scontrol requeue "$SLURM_JOB_ID"
}
trap save_and_requeue USR1
srun apptainer exec --nv --bind /tmp snn.sif python -u train.py --ckpt runs/last.ckpt &
training=$!
wait "$training"
"""
TWO_AT_ONCE = """\
#!/bin/bash
#SBATCH --nodes=1 --ntasks=2 --gpus-per-node=2 --time=60
#SBATCH --no-requeue
CUDA_VISIBLE_DEVICES=0 srun -n 1 --exact -K python train.py --lr 0.1 --checkpoint /tmp/a.pt &
CUDA_VISIBLE_DEVICES=1 srun -n 1 --exact -K python train.py --lr 0.2 --checkpoint /tmp/b.pt &
wait
cp /tmp/[ab].pt "$SLURM_SUBMIT_DIR"
"""
IN_TURN = """\
#!/bin/bash
#SBATCH --nodes=1 --ntasks-per-node=4 --gpus-per-node=4 --cpus-per-task=6
#SBATCH --time=12:00:00 --signal=SIGUSR1@90 --requeue --open-mode=append
trap 'echo "job $SLURM_JOB_ID on $(hostname) ends at $(date)"' EXIT
export SLURM_KILL_BAD_EXIT=1 SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000)) MASTER_ADDR=localhost
export CUDA_VISIBLE_DEVICES=0,1,2,3
python prepare.py && srun -n 1 hostname
for width in 128 256; do
  if [ ! -f done-$width ]; then
    srun snnkit train workshop --hidden $width --checkpoint $width.pt --resume --devices 4 && touch done-$width
  fi
done
CUDA_VISIBLE_DEVICES=0 srun -n 1 python report.py --devices 1
echo "finished $(date), rank=$SLURM_PROCID"
"""


@pytest.mark.parametrize("text", [TORCHRUN, ARRAY, WRAPPED, FORWARDED, TWO_AT_ONCE, IN_TURN])
def test_correct_scripts_of_other_people_pass(text):
    assert found(text) == []


@pytest.mark.parametrize(
    "text", ["", "\n", "#!/bin/bash", "#!/bin/bash\n#SBATCH", '#!/bin/sh\n#SBATCH --name="a', "\\"]
)
def test_texts_that_are_hardly_scripts_are_no_reason_to_fail(text):
    assert {"signal", "requeue"} <= {problem.rule for problem in slurm.check(text)}


def test_a_text_too_long_for_a_script_is_refused_at_once():
    with pytest.raises(ValueError, match="text must have at most 100,000 characters, but it has 110,000"):
        slurm.check("\n#SBATCH a=" * 10_000)
