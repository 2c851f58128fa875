# The driver: no torch, not root, nothing written outside its state folder and /tmp.
#   docker build -f deploy/docker/driver.Dockerfile -t holdfast-driver:0.1.0 .
# Stages, so that a change is a layer of its own size: libraries are new where wanted.txt or kept.txt
# are, and Holdfast is the last layer, without its sources.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS wanted
COPY pyproject.toml requirements/pins.txt deploy/docker/wanted.py /wanted/
RUN cd /wanted \
 && python wanted.py pyproject.toml pins.txt kubernetes postgres tls

FROM python:${PYTHON}-slim AS libraries
COPY --from=wanted /wanted/wanted.txt /wanted/kept.txt /wanted/
RUN python -m venv /opt/holdfast \
 && /opt/holdfast/bin/pip install --no-cache-dir --constraint /wanted/kept.txt --requirement /wanted/wanted.txt
ENV PATH=/opt/holdfast/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN install -d -o 10001 -g 10001 /var/lib/holdfast

FROM libraries AS own
RUN pip install --no-cache-dir --constraint /wanted/kept.txt 'setuptools>=77'
COPY . /source
RUN pip install --no-cache-dir --no-deps --no-build-isolation --root /own /source

FROM libraries
COPY --from=own /own/ /
USER 10001:10001
ENTRYPOINT ["python", "-m", "holdfast.driver.main"]
