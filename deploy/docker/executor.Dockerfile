# What the pods of a job run: executor, daemon, torch, and the job's own script on top of it.
#   docker build -f deploy/docker/executor.Dockerfile -t holdfast-executor:0.1.0 .
# What the base has (--build-arg BASE=…, a vendor's with a torch of its own) stays as it is there.
# An image of one's own needs no more than Python 3.11 or newer and: pip install 'holdfast[train]' (s3: [train,s3]; redis alike)
# Stages, so that a change is a layer of its own size: libraries are new where wanted.txt or kept.txt
# are, and Holdfast is the last layer, without its sources.
ARG BASE=python:3.11-slim

FROM ${BASE} AS wanted
USER 0:0
COPY pyproject.toml requirements/pins.txt deploy/docker/wanted.py /wanted/
RUN cd /wanted \
 && python wanted.py pyproject.toml pins.txt train s3 redis

# pip comes from the base or from ensurepip: bases of Debian and Ubuntu often have no ensurepip.
FROM ${BASE} AS libraries
USER 0:0
COPY --from=wanted /wanted/wanted.txt /wanted/kept.txt /wanted/
RUN python -m venv --without-pip --system-site-packages /opt/holdfast \
 && { /opt/holdfast/bin/python -m pip --version || /opt/holdfast/bin/python -m ensurepip; } \
 && /opt/holdfast/bin/python -m pip install --no-cache-dir --ignore-installed --constraint /wanted/kept.txt pip \
 && /opt/holdfast/bin/pip install --no-cache-dir --constraint /wanted/kept.txt --requirement /wanted/wanted.txt
ENV PATH=/opt/holdfast/bin:$PATH PYTHONUNBUFFERED=1
# With a name and a home: what scripts import asks for both (getpass, ~/.cache).
RUN echo holdfast:x:10001:10001::/home/holdfast:/bin/sh >> /etc/passwd \
 && echo holdfast:x:10001: >> /etc/group \
 && install -d -o 10001 -g 10001 /var/lib/holdfast /home/holdfast /work

FROM libraries AS own
RUN pip install --no-cache-dir --constraint /wanted/kept.txt 'setuptools>=77'
COPY . /source
RUN pip install --no-cache-dir --no-deps --no-build-isolation --root /own /source

FROM libraries
COPY --from=own /own/ /
USER 10001:10001
WORKDIR /work
CMD ["python", "-m", "holdfast.keeper.pod"]
