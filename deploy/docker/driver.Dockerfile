# The driver: no torch, not root, nothing written outside its state folder and /tmp.
#   docker build -f deploy/docker/driver.Dockerfile -t holdfast-driver:0.1.0 .
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
COPY pyproject.toml requirements/pins.txt deploy/docker/wanted.py /wanted/
RUN cd /wanted \
 && python -m venv /opt/holdfast \
 && python wanted.py pyproject.toml pins.txt kubernetes postgres tls > wanted.txt 2> kept.txt \
 && /opt/holdfast/bin/pip install --no-cache-dir --constraint kept.txt --requirement wanted.txt
COPY . /source
RUN /opt/holdfast/bin/pip install --no-cache-dir --no-deps /source

FROM python:${PYTHON}-slim
COPY --from=build /opt/holdfast /opt/holdfast
ENV PATH=/opt/holdfast/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN install -d -o 10001 -g 10001 /var/lib/holdfast
USER 10001:10001
ENTRYPOINT ["python", "-m", "holdfast.driver.main"]
