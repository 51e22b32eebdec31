# SPDX-License-Identifier: Apache-2.0
#
#   docker build -t zeroth .
#   docker run --rm -it -v "$PWD:/work" zeroth train train.ini
# For GPUs: build where nvcc is, debian/rules says how; FROM nvidia/cuda:13.0.1-devel-ubuntu24.04 has it.
ARG base=debian:12-slim
FROM $base AS build
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get update && apt-get install -y --no-install-recommends build-essential
COPY . /src/zeroth
WORKDIR /src/zeroth
RUN apt-get build-dep -y --no-install-recommends ./
RUN DEB_BUILD_OPTIONS="nocheck noddebs parallel=$(nproc)" dpkg-buildpackage -us -uc -b

FROM $base
COPY --from=build /src/*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends /tmp/libzeroth0_*.deb /tmp/zeroth_*.deb \
	/tmp/python3-zeroth_*.deb && rm -rf /tmp/*.deb /var/lib/apt/lists/* && zeroth doctor
WORKDIR /work
ENTRYPOINT ["zeroth"]
