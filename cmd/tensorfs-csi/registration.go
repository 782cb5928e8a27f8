package main

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Registration tells kubelet where the driver is: kubelet watches the directory of the socket and asks.
type registration struct {
	registerapi.UnimplementedRegistrationServer

	endpoint string // the path of the driver's socket as kubelet sees it
	refused  chan string
}

// GetInfo returns what is to be registered.
func (r *registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{Type: registerapi.CSIPlugin, Name: driverName, Endpoint: r.endpoint, SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus hears whether it was.
func (r *registration) NotifyRegistrationStatus(_ context.Context, s *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	why := ""
	if !s.PluginRegistered {
		why = s.Error
		if why == "" {
			why = "kubelet does not say why"
		}
	}
	select {
	case r.refused <- why:
	default:
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

// registerAgain is how long a driver waits that was refused: kubelet looks at a socket only when it is new.
const registerAgain = 10 * time.Second

// register offers the driver to kubelet until ctx ends.
func register(ctx context.Context, socket, endpoint string, log *slog.Logger) error {
	for {
		l, err := listenUnix(socket)
		if err != nil {
			return err
		}
		r := &registration{endpoint: endpoint, refused: make(chan string, 1)}
		g := grpc.NewServer()
		registerapi.RegisterRegistrationServer(g, r)
		ended := make(chan error, 1)
		go func() { ended <- g.Serve(l) }()
		if again, err := r.await(ctx, g, ended, log); !again {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(registerAgain):
		}
	}
}

// await returns whether kubelet refused.
func (r *registration) await(ctx context.Context, g *grpc.Server, ended <-chan error, log *slog.Logger) (again bool, err error) {
	for {
		select {
		case <-ctx.Done():
			g.Stop()
			return false, nil
		case err := <-ended:
			return false, err
		case why := <-r.refused:
			if why == "" {
				log.Info("registered with kubelet")
				continue
			}
			log.Error("kubelet does not register the driver", "error", why)
			g.GracefulStop()
			return true, nil
		}
	}
}
