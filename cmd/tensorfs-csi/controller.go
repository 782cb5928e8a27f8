package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A controller makes volumes of StorageClasses for csi-provisioner. It keeps nothing of them: all is in a volume's id.
type controller struct {
	csi.UnimplementedControllerServer

	local string
	mu    sync.Mutex
	sizes map[string]*csi.CapacityRange // as asked, by the names of volumes: only to refuse other ones
}

// ControllerGetCapabilities reports that volumes can be made and deleted.
func (c *controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: []*csi.ControllerServiceCapability{{
		Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME}},
	}}}, nil
}

const (
	// idForm begins ids; other forms may come.
	idForm = "m1."
	// nameSum is how many bytes of an id tell names apart.
	nameSum = 6
)

// CreateVolume makes a volume of the parameters of a StorageClass, which are attributes.
func (c *controller) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	switch {
	case r.Name == "":
		return nil, status.Error(codes.InvalidArgument, "no name")
	case len(r.VolumeCapabilities) == 0:
		return nil, status.Error(codes.InvalidArgument, "no volume capabilities")
	case hasBlock(r.VolumeCapabilities):
		return nil, status.Error(codes.InvalidArgument, "a model is a directory, and no block device")
	case r.VolumeContentSource != nil:
		return nil, status.Error(codes.InvalidArgument, "a volume shows a model, and is no copy of another volume")
	}
	a, err := readAttributes(r.Parameters, c.local)
	if err != nil {
		return nil, err
	}
	size := r.CapacityRange
	c.mu.Lock()
	defer c.mu.Unlock()
	if had, ok := c.sizes[r.Name]; ok && (had.GetRequiredBytes() != size.GetRequiredBytes() || had.GetLimitBytes() != size.GetLimitBytes()) {
		return nil, status.Errorf(codes.AlreadyExists, "volume %s has another size", r.Name)
	}
	if len(c.sizes) >= maxSizes {
		clear(c.sizes)
	}
	c.sizes[r.Name] = size
	text, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(r.Name))
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId:      idForm + base64.RawURLEncoding.EncodeToString(append(sum[:nameSum], text...)),
		VolumeContext: a,
		CapacityBytes: size.GetRequiredBytes(),
	}}, nil
}

// maxSizes bounds the memory that names of volumes take.
const maxSizes = 10000

func hasBlock(all []*csi.VolumeCapability) bool {
	for _, c := range all {
		if c.GetBlock() != nil {
			return true
		}
	}
	return false
}

// parseID returns the attributes of a volume.
func parseID(id string) (map[string]string, error) {
	text, ok := strings.CutPrefix(id, idForm)
	b, err := base64.RawURLEncoding.DecodeString(text)
	var given map[string]string
	if !ok || err != nil || len(b) < nameSum || json.Unmarshal(b[nameSum:], &given) != nil || given["model"] == "" {
		return nil, status.Error(codes.NotFound, "no such volume")
	}
	return given, nil
}

// DeleteVolume has nothing to delete.
func (c *controller) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if r.VolumeId == "" {
		return nil, status.Error(codes.InvalidArgument, "no volume id")
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// ValidateVolumeCapabilities reports whether a volume can be used this way. Only block
// devices are not supported.
func (c *controller) ValidateVolumeCapabilities(_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	switch {
	case r.VolumeId == "":
		return nil, status.Error(codes.InvalidArgument, "no volume id")
	case len(r.VolumeCapabilities) == 0:
		return nil, status.Error(codes.InvalidArgument, "no volume capabilities")
	}
	if _, err := parseID(r.VolumeId); err != nil {
		return nil, err
	}
	if hasBlock(r.VolumeCapabilities) {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: "a model is a directory, and no block device"}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: r.VolumeContext, VolumeCapabilities: r.VolumeCapabilities, Parameters: r.Parameters,
	}}, nil
}

func newController(local string) *controller {
	return &controller{local: local, sizes: map[string]*csi.CapacityRange{}}
}
