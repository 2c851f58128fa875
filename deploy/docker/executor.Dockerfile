# What the pods of a job run: executor, daemon, torch, and the job's own script on top of it.
#   docker build -f deploy/docker/executor.Dockerfile -t holdfast-executor:0.1.0 .
# What the base has (--build-arg BASE=…, a vendor's with a torch of its own) stays as it is there.
# An image of one's own needs no more than Python 3.11 or newer and: pip install 'holdfast[train]'
ARG BASE=python:3.11-slim

FROM ${BASE}
COPY pyproject.toml requirements/pins.txt deploy/docker/wanted.py /wanted/
RUN cd /wanted \
 && python -m venv --system-site-packages /opt/holdfast \
 && python wanted.py pyproject.toml pins.txt train > wanted.txt 2> kept.txt \
 && /opt/holdfast/bin/pip install --no-cache-dir --constraint kept.txt --requirement wanted.txt
COPY . /source
RUN /opt/holdfast/bin/pip install --no-cache-dir --no-deps /source
ENV PATH=/opt/holdfast/bin:$PATH PYTHONUNBUFFERED=1
RUN install -d -o 10001 -g 10001 /var/lib/holdfast /work
USER 10001:10001
WORKDIR /work
CMD ["python", "-m", "holdfast.keeper.pod"]
