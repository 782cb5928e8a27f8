package main

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// NodeGetInfo names the node.
func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

var nodeCapabilities = []csi.NodeServiceCapability_RPC_Type{
	csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
	csi.NodeServiceCapability_RPC_VOLUME_CONDITION,
}

// NodeGetCapabilities lists the node's further abilities. Files are 0444 for all, so there
// is nothing to do for groups, and inline volumes are never staged.
func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	r := &csi.NodeGetCapabilitiesResponse{}
	for _, c := range nodeCapabilities {
		r.Capabilities = append(r.Capabilities, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: c}}})
	}
	return r, nil
}

// once has things done the first time that a name comes.
type once struct{ names sync.Map }

func (o *once) first(name string) bool {
	_, was := o.names.LoadOrStore(name, true)
	return !was
}

// NodePublishVolume has a volume shown to a pod. Volumes are read-only, whatever is asked for. Kubelet calls it again now and then (requiresRepublish).
func (d *driver) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	switch {
	case r.VolumeId == "":
		return nil, status.Error(codes.InvalidArgument, "no volume id")
	case r.VolumeCapability == nil:
		return nil, status.Error(codes.InvalidArgument, "no volume capability")
	case r.VolumeCapability.GetBlock() != nil:
		return nil, status.Error(codes.InvalidArgument, "a model is a directory, and no block device")
	}
	if err := checkTarget(r.TargetPath); err != nil {
		return nil, err
	}
	a, err := readAttributes(r.VolumeContext, d.local)
	if err != nil {
		return nil, err
	}
	sec, err := readSecrets(r.Secrets)
	if err != nil {
		return nil, err
	}
	if a.moves() && d.warned.first(a["model"]) {
		d.log.Warn("a branch may be another commit on each node; name one with @COMMIT", "model", a.public())
	}
	if err := d.publish(ctx, record{Volume: r.VolumeId, Target: r.TargetPath, Attributes: a}, sec); err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// checkTarget describes what is wrong with a target. The table of mounts has paths as the
// kernel writes them.
func checkTarget(target string) error {
	switch {
	case target == "":
		return status.Error(codes.InvalidArgument, "no target path")
	case !filepath.IsAbs(target) || filepath.Clean(target) != target || target == "/":
		return status.Errorf(codes.InvalidArgument, "target path %s: want an absolute path without //, . and ..", tensorfs.Quote(target))
	}
	return nil
}

// NodeUnpublishVolume takes a volume away.
func (d *driver) NodeUnpublishVolume(ctx context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if r.VolumeId == "" {
		return nil, status.Error(codes.InvalidArgument, "no volume id")
	}
	if err := checkTarget(r.TargetPath); err != nil {
		return nil, err
	}
	if err := d.unpublish(ctx, r.VolumeId, r.TargetPath); err != nil {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeGetVolumeStats reports the size of a volume and the state of its server.
func (d *driver) NodeGetVolumeStats(ctx context.Context, r *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	switch {
	case r.VolumeId == "":
		return nil, status.Error(codes.InvalidArgument, "no volume id")
	case r.VolumePath == "":
		return nil, status.Error(codes.InvalidArgument, "no volume path")
	}
	rec, err := d.dir.readRecord(r.VolumeId, r.VolumePath)
	if err != nil {
		return nil, err
	}
	m, err := top(r.VolumePath)
	if err != nil {
		return nil, err
	}
	if rec == nil || m == nil {
		return nil, status.Errorf(codes.NotFound, "the volume is not published at %s", r.VolumePath)
	}
	answer := &csi.NodeGetVolumeStatsResponse{VolumeCondition: d.condition(rec.Key)}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	st, err := patiently(ctx, func() (st unix.Statfs_t, err error) { return st, unix.Statfs(r.VolumePath, &st) })
	if err != nil { // the condition has the reason
		if !answer.VolumeCondition.Abnormal {
			answer.VolumeCondition = abnormal("it does not answer: " + err.Error())
		}
		return answer, nil
	}
	size := int64(st.Bsize)
	answer.Usage = []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: int64(st.Blocks) * size, Available: int64(st.Bavail) * size, Used: int64(st.Blocks-st.Bfree) * size},
		{Unit: csi.VolumeUsage_INODES, Total: int64(st.Files), Available: int64(st.Ffree), Used: int64(st.Files - st.Ffree)},
	}
	return answer, nil
}

func abnormal(why string) *csi.VolumeCondition {
	return &csi.VolumeCondition{Abnormal: true, Message: tensorfs.OneLine(why)}
}

// condition is the state of a key's server.
func (d *driver) condition(key string) *csi.VolumeCondition {
	st, err := d.status(key)
	switch {
	case errors.Is(err, mounts.ErrHung):
		return abnormal("the server does not answer")
	case err != nil:
		return abnormal("the server is gone: " + err.Error())
	case len(st.Health.Changed) > 0:
		return abnormal("changed: " + st.Health.Changed[0])
	}
	return &csi.VolumeCondition{Message: "ok"}
}
