# Two stages: the Go image builds one static binary, the final image holds that
# binary, the CA bundle and a user, nothing else.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG COMMIT=unknown
RUN CGO_ENABLED=0 go build -trimpath -tags grpcnotrace -ldflags "-s -w -X main.version=${VERSION} -X main.commit=${COMMIT}" -o /out/admitd ./cmd/admitd

FROM gcr.io/distroless/static-debian12:nonroot
LABEL org.opencontainers.image.title="admitd" \
      org.opencontainers.image.description="Admission control in front of databases and queues" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/admitd /usr/local/bin/admitd
USER 65532:65532
# 8462 is where the demo listens; 9462 is the admin port, 9463 the one of those who
# ask, once the configuration names it.
EXPOSE 8462 9462 9463
ENTRYPOINT ["/usr/local/bin/admitd"]
CMD ["serve", "--config", "/etc/admitd/admitd.yaml"]
