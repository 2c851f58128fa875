# The driver: no torch, not root, nothing written outside its state folder and /tmp.
#   docker build -f deploy/docker/driver.Dockerfile -t holdfast-driver:0.1.0 .
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
COPY . /source
RUN python -m venv /opt/holdfast \
 && /opt/holdfast/bin/pip install --no-cache-dir --constraint /source/requirements/pins.txt \
    "/source[kubernetes,postgres,tls]"

FROM python:${PYTHON}-slim
COPY --from=build /opt/holdfast /opt/holdfast
ENV PATH=/opt/holdfast/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN install -d -o 10001 -g 10001 /var/lib/holdfast
USER 10001:10001
ENTRYPOINT ["python", "-m", "holdfast.driver.main"]
