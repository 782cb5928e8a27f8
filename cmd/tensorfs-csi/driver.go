package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// driverName is how CSIDriver objects and volumes name the driver.
const driverName = "csi.tensorfs.dev"

// Driver answers kubelet, and the provisioner if it is the controller too.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer

	*fleet
	node       string
	controller *controller
	warned     once
}

// serve answers calls at a socket until ctx ends.
func (d *driver) serve(ctx context.Context, l net.Listener) error {
	g := grpc.NewServer(grpc.UnaryInterceptor(d.observe))
	csi.RegisterIdentityServer(g, d)
	csi.RegisterNodeServer(g, d)
	if d.controller != nil {
		csi.RegisterControllerServer(g, d.controller)
	}
	context.AfterFunc(ctx, g.GracefulStop)
	return g.Serve(l)
}

// observe counts a call and logs a failed one. It logs nothing of the request, which may be
// secret.
func (d *driver) observe(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	began := time.Now()
	resp, err := handle(ctx, req)
	if err != nil {
		err = systemError(err)
	}
	took := time.Since(began)
	rpc, code := path.Base(info.FullMethod), status.Code(err)
	d.counters.rpcs.WithLabelValues(rpc, code.String()).Observe(took.Seconds())
	level := slog.LevelDebug
	if err != nil {
		level = slog.LevelWarn
	}
	d.log.Log(ctx, level, "answered", "rpc", rpc, "code", code, "seconds", took.Seconds(), "error", err)
	return resp, err
}

// GetPluginInfo returns the driver's name and version.
func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driverName, VendorVersion: version()}, nil
}

// GetPluginCapabilities reports whether volumes can be made.
func (d *driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	r := &csi.GetPluginCapabilitiesResponse{}
	if d.controller != nil {
		r.Capabilities = []*csi.PluginCapability{{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{
			Type: csi.PluginCapability_Service_CONTROLLER_SERVICE,
		}}}}
	}
	return r, nil
}

// Probe reports whether volumes can be published.
func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	if err := d.probe(); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// probe reports what is missing.
func (d *driver) probe() error {
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("FUSE cannot be used; the driver's container has to be privileged: %w", err)
	}
	fuse.Close()
	f, err := os.CreateTemp(d.dir.run(), "probe-")
	if err != nil {
		return fmt.Errorf("--dir cannot be written: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// serveHTTP answers /metrics and /healthz.
func (d *driver) serveHTTP(ctx context.Context, l net.Listener, registry *prometheus.Registry) error {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelWarn)}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := d.probe(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { s.Close() })
	return s.Serve(l)
}

// listenUnix listens at an endpoint as Kubernetes writes them, unix:///PATH, and replaces the socket of an earlier driver.
func listenUnix(endpoint string) (net.Listener, error) {
	file := endpoint
	if rest, ok := strings.CutPrefix(endpoint, "unix:"); ok {
		file = rest
		if rest, ok := strings.CutPrefix(rest, "//"); ok {
			file = rest
		}
	}
	if !path.IsAbs(file) {
		return nil, fmt.Errorf("%s: want unix:// and an absolute path", endpoint)
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", file)
}
