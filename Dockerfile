# SPDX-License-Identifier: Apache-2.0
#
#   docker build -t zeroth .
#   docker run --rm -it -v "$PWD:/work" zeroth train train.ini
# --build-arg base=debian:13-slim takes another release. GPUs need zeroth-cuda, too: see debian/rules.
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
