# %% [markdown]
# # A job from a notebook
#
# Submit a job, follow it, plot its loss with the restarts marked, and read what went wrong. Open
# this file in VS Code or Jupyter (jupytext); each `# %%` is a cell. It needs a driver with two
# nodes: `holdfast driver --state state --local-nodes 3`, and HOLDFAST_STATE=state.

# %%
from pathlib import Path

from holdfast import Client

client = Client()
client

# %% [markdown]
# A script of ten lines, which tells its loss and dies once on the way.

# %%
Path("train.py").write_text(
    """
import os, time
from pathlib import Path
from holdfast import telemetry

begin, died = Path("step"), Path("died")
for step in range(int(begin.read_text()) + 1 if begin.exists() else 1, 41):
    time.sleep(0.1)
    telemetry.step(step, loss=3.0 / step)
    begin.write_text(str(step))
    if step == 15 and not died.exists():
        died.touch()
        time.sleep(2.0)
        os.kill(os.getpid(), 11)
"""
)
job = {
    "metadata": {"name": "from-a-notebook"},
    "spec": {"nodes": 1, "command": ["python", "train.py"], "workdir": str(Path.cwd())},
}
done = client.submit(job)
done.why

# %% [markdown]
# Look at it until it is over.

# %%
steps: list[int] = []
losses: list[float] = []
restarts: list[int] = []
attempt = 1
for seen in client.watch("from-a-notebook", period_s=0.2):
    if seen.loss is not None and seen.step is not None:
        steps.append(seen.step)
        losses.append(seen.loss)
    if seen.attempt > attempt:
        attempt = seen.attempt
        restarts.append(steps[-1] if steps else 0)
seen.phase, len(losses), restarts

# %% [markdown]
# Each attempt but the first is a restart.

# %%
attempts = client.attempts("from-a-notebook")
[(each.attempt, each.source, each.step, each.why) for each in attempts]

# %% [markdown]
# What broke, and what it cost.

# %%
incidents = client.incidents(job="from-a-notebook")
[(each.number, each.kind, each.summary, each.down_s) for each in incidents]

# %%
try:
    import matplotlib.pyplot as plot
except ImportError:
    print("matplotlib is not installed; the loss fell from", losses[0], "to", losses[-1])
else:
    figure, axes = plot.subplots()
    axes.plot(steps, losses)
    for step in restarts:
        axes.axvline(step, linestyle=":", label="restart")
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    axes.legend()

# %% [markdown]
# What happened, in sentences.

# %%
why = client.why("from-a-notebook")
print(why.headline)
for line in why.lines:
    print(" ", line.at[11:19], line.text)

# %% [markdown]
# And the journal's own entries, each once, to the end of the job.

# %%
kinds = [event.kind for event in client.follow("from-a-notebook")]
kinds
