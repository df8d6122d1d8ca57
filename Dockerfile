# Seven images out of one file; scripts/images builds five of them, and with --cuda the other two.
#
#   tandem-draft  tandem-target  tandem-orchestrator     one service each
#   tandem                                               the client
#   tandem-demo-models                                   demo/ at /models, and a `cp`
#   tandem-target-cuda  tandem-draft-cuda                these two with LibTorch, for --device=cuda
#
# No other images have LibTorch (option TANDEM_WITH_TORCH): a service loads it only for --device=torch-cpu and --device=cuda.

ARG BASE=debian:bookworm-slim

# ── build: Debian 12 with what scripts/setup brings, then the sources. A changed source repeats the last step alone.
FROM ${BASE} AS build
WORKDIR /usr/src/tandem
COPY scripts/setup scripts/lib.sh scripts/
COPY common/tokenizer/bridge common/tokenizer/bridge
RUN scripts/setup --build
# The crates take a minute, and change rarely. The library is kept in the cache folder, where the build finds it.
RUN cmake -DCARGO="$(command -v cargo)" -DSOURCE_DIR="$PWD/common/tokenizer/bridge" \
      -DTARGET_DIR=/root/.cache/tandem/cargo-target -DOUTPUT=/tmp/bridge.a -P common/tokenizer/bridge/build.cmake
COPY CMakeLists.txt CMakePresets.json ./
COPY cmake cmake
COPY proto proto
COPY common common
COPY model model
COPY torch torch
COPY draft_service draft_service
COPY target_service target_service
COPY orchestrator orchestrator
COPY all_in_one all_in_one
COPY client client
RUN --mount=type=cache,id=tandem-ccache,target=/root/.cache/ccache \
    cmake --preset release -DTANDEM_WITH_TORCH=OFF -DTANDEM_WITH_TESTS=OFF \
 && cmake --build build/release --target tandem tandem-draft tandem-target tandem-orchestrator
# OpenTelemetry's libraries are taken out of their package: it would bring curl, Kerberos and LDAP, which no service uses.
RUN mkdir -p /out/bin /out/lib /out/doc \
 && for name in tandem tandem-draft tandem-target tandem-orchestrator; do \
      strip -o "/out/bin/$name" "build/release/bin/$name" || exit 1; \
    done \
 && ldd build/release/bin/tandem-* | awk '$1 ~ /^libopentelemetry/ { print $3 }' | sort -u | xargs cp -Lt /out/lib \
 && cp /usr/share/doc/opentelemetry-cpp/copyright /out/doc/

# ── runtime: the shared libraries. Everything else of a service is in its binary.
FROM ${BASE} AS runtime
RUN apt-get -q update \
 && apt-get -q -y install --no-install-recommends libgrpc++1.51 libprometheus-cpp-core1.0 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*
COPY --from=build /out/lib/ /usr/local/lib/
COPY --from=build /out/doc/ /usr/share/doc/opentelemetry-cpp/
RUN ldconfig
ARG VERSION=0.1.0
ARG REVISION=
LABEL org.opencontainers.image.title="Tandem" \
      org.opencontainers.image.description="Speculative decoding across machines" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="debian:bookworm-slim"
# A number: Kubernetes' runAsNonRoot cannot look into a passwd file. There is nothing that this user may write.
USER 65532:65532
WORKDIR /
STOPSIGNAL SIGTERM

# No HEALTHCHECK: ready, busy and stuck are three answers, and what follows from each is the orchestrating system's business.
# k8s/ asks gRPC's health service on the admin port, compose.yaml reads /metrics.
FROM runtime AS tandem-draft
COPY --from=build /out/bin/tandem-draft /usr/local/bin/
RUN ! ldd /usr/local/bin/tandem-draft | grep 'not found'
EXPOSE 50051 9051
ENTRYPOINT ["/usr/local/bin/tandem-draft"]

FROM runtime AS tandem-target
COPY --from=build /out/bin/tandem-target /usr/local/bin/
RUN ! ldd /usr/local/bin/tandem-target | grep 'not found'
EXPOSE 50052 9052
ENTRYPOINT ["/usr/local/bin/tandem-target"]

FROM runtime AS tandem-orchestrator
COPY --from=build /out/bin/tandem-orchestrator /usr/local/bin/
RUN ! ldd /usr/local/bin/tandem-orchestrator | grep 'not found'
EXPOSE 50050 9050
ENTRYPOINT ["/usr/local/bin/tandem-orchestrator"]

# ── LibTorch for a card: 2.3 GB of wheels, of which the image keeps the libraries that are loaded. Nothing is installed into a Python.
FROM ${BASE} AS libtorch
RUN apt-get -q update \
 && apt-get -q -y install --no-install-recommends ca-certificates python3-pip unzip
COPY scripts/libtorch.txt scripts/nvrtc.txt scripts/libtorch-cuda.txt scripts/cuda-crt.txt /tmp/
RUN python3 -m pip download --no-deps --only-binary=:all: --require-hashes --no-cache-dir -d /tmp/wheels \
      -r /tmp/libtorch.txt -r /tmp/nvrtc.txt -r /tmp/libtorch-cuda.txt -r /tmp/cuda-crt.txt \
 && for wheel in /tmp/wheels/*.whl; do unzip -q -o "$wheel" -d /opt/libtorch || exit 1; done \
 && rm -r /tmp/wheels \
 && mkdir -p /out/libtorch \
 && cd /opt/libtorch \
 && find torch/lib nvidia/*/lib -name '*.so*' ! -name 'libtorch_python*' ! -name 'libtorch_cuda_linalg*' ! -name 'libshm*' \
      ! -name '*.alt.so*' ! -name 'libnvperf*' ! -name 'libcufftw*' ! -name 'libnvblas*' -exec cp --parents -t /out/libtorch {} +

# The library is built against the same files, at the place where it finds them later.
FROM build AS build-cuda
COPY --from=libtorch /opt/libtorch /opt/libtorch
RUN --mount=type=cache,id=tandem-ccache,target=/root/.cache/ccache \
    cmake --preset release -DTANDEM_WITH_TORCH=ON -DTANDEM_TORCH_DIR=/opt/libtorch/torch -DTANDEM_WITH_TESTS=OFF \
      -DTANDEM_CUDA_CRT_DIR=/opt/libtorch/nvidia/cu13/include \
 && cmake --build build/release --target libtandem_torch libtandem_torch_cuda \
 && for library in libtandem_torch libtandem_torch_cuda; do strip -o /out/lib/$library.so build/release/lib/$library.so || exit 1; done

FROM runtime AS runtime-cuda
COPY --from=libtorch /out/libtorch/ /opt/libtorch/
COPY --from=build-cuda /out/lib/libtandem_torch.so /out/lib/libtandem_torch_cuda.so /usr/local/lib/
# libcuda.so.1 alone comes from the node, with its driver.
RUN ! ldd /usr/local/lib/libtandem_torch*.so /opt/libtorch/torch/lib/libtorch_cuda.so \
      | grep -v 'libcuda\.so\.1' | grep 'not found'
# What NVIDIA's container runtime asks an image for.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility

FROM runtime-cuda AS tandem-draft-cuda
COPY --from=build /out/bin/tandem-draft /usr/local/bin/
RUN ! ldd /usr/local/bin/tandem-draft | grep 'not found'
EXPOSE 50051 9051
ENTRYPOINT ["/usr/local/bin/tandem-draft"]

FROM runtime-cuda AS tandem-target-cuda
COPY --from=build /out/bin/tandem-target /usr/local/bin/
RUN ! ldd /usr/local/bin/tandem-target | grep 'not found'
EXPOSE 50052 9052
ENTRYPOINT ["/usr/local/bin/tandem-target"]

# Of all images this one alone downloads (`tandem pull`), so it has libcurl and knows whom to trust: Debian's authorities, and none of
# the machine that builds it.
FROM runtime AS tandem
USER root
RUN apt-get -q update \
 && apt-get -q -y install --no-install-recommends libcurl4 ca-certificates \
 && find /etc/ssl/certs -lname '/usr/local/*' -delete \
 && update-ca-certificates --fresh --localcertsdir /nonexistent \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*
USER 65532:65532
COPY --from=build /out/bin/tandem /usr/local/bin/
RUN ! ldd /usr/local/bin/tandem | grep 'not found'
ENTRYPOINT ["/usr/local/bin/tandem"]

# ── the demo pair, for an init container that copies it where a service looks for its model.
FROM ${BASE} AS tandem-demo-models
ARG VERSION=0.1.0
ARG REVISION=
LABEL org.opencontainers.image.title="Tandem's demo models" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="debian:bookworm-slim"
COPY demo/draft /models/draft
COPY demo/target /models/target
USER 65532:65532
CMD ["ls", "-lR", "/models"]
