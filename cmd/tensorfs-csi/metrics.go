package main

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/tensorfs/tensorfs/fs"
)

// Counters are what the driver counts itself.
type counters struct {
	rpcs      *prometheus.HistogramVec
	starts    prometheus.Histogram
	takeovers *prometheus.CounterVec
}

func newCounters() *counters {
	c := &counters{
		rpcs: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tensorfs_csi_rpc_seconds", Help: "How long calls of kubelet took.",
			Buckets: []float64{.005, .02, .1, .5, 1, 2, 5, 10, 30, 60, 120},
		}, []string{"rpc", "code"}),
		starts: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tensorfs_server_start_seconds", Help: "How long servers took from their start until a volume could be bound.",
			Buckets: []float64{.05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120},
		}),
		takeovers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tensorfs_takeovers_total", Help: "Servers that replaced one that had ended: the mount was taken over (taken), or made again (the result \"anew\").",
		}, []string{"result"}),
	}
	for _, result := range []string{"taken", "anew"} {
		c.takeovers.WithLabelValues(result)
	}
	return c
}

// registry returns all metrics of a driver.
func (f *fleet) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(f.counters.rpcs, f.counters.starts, f.counters.takeovers, serverMetrics{f}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

var (
	volumesMetric = prometheus.NewDesc("tensorfs_volumes", "Volumes that are published on this node.", nil, nil)
	serversMetric = prometheus.NewDesc("tensorfs_servers", "Servers of this node.", []string{"state"}, nil)
)

// serverStates are the states of tensorfs_servers.
var serverStates = []string{"starting", "ok", "changed", "silent"}

// perServer are the metrics that each server has, with its model and key.
var perServer = []struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	each func(s *fs.Status, emit func(value int64, labels ...string))
}{
	serverMetric("tensorfs_server_read_bytes_total", "Bytes that servers gave to readers, but for what the kernel reads past them.", "view",
		func(s *fs.Status, emit func(int64, ...string)) { eachCount(s.Counts.Read, emit) }),
	serverMetric("tensorfs_server_errors_total", "Reads that failed.", "errno",
		func(s *fs.Status, emit func(int64, ...string)) { eachCount(s.Counts.Failed, emit) }),
	serverMetric("tensorfs_server_fetched_bytes_total", "Bytes that came from other machines.", "",
		func(s *fs.Status, emit func(int64, ...string)) { emit(s.Counts.Fetched) }),
	serverMetric("tensorfs_server_cached_bytes_total", "Bytes of other machines' files that were read from the node's cache.", "",
		func(s *fs.Status, emit func(int64, ...string)) { emit(s.Counts.Cached) }),
}

func serverMetric(name, help, label string, each func(*fs.Status, func(int64, ...string))) struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	each func(*fs.Status, func(int64, ...string))
} {
	labels := []string{"model", "server"}
	if label != "" {
		labels = append(labels, label)
	}
	return struct {
		desc *prometheus.Desc
		kind prometheus.ValueType
		each func(*fs.Status, func(int64, ...string))
	}{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue, each}
}

func eachCount(counts map[string]int64, emit func(int64, ...string)) {
	for name, n := range counts {
		emit(n, name)
	}
}

// serverMetrics asks the servers when metrics are collected.
type serverMetrics struct{ *fleet }

// Describe names the metrics.
func (m serverMetrics) Describe(c chan<- *prometheus.Desc) {
	c <- volumesMetric
	c <- serversMetric
	for _, p := range perServer {
		c <- p.desc
	}
}

// Collect asks all servers concurrently.
func (m serverMetrics) Collect(c chan<- prometheus.Metric) {
	records, err := m.dir.records()
	if err != nil {
		m.log.Warn("a record cannot be read", "error", err)
	}
	c <- prometheus.MustNewConstMetric(volumesMetric, prometheus.GaugeValue, float64(len(records)))
	var mu sync.Mutex
	states := map[string]int{}
	var all sync.WaitGroup
	for _, s := range m.servers() {
		all.Go(func() {
			state := m.collect(s, c)
			mu.Lock()
			defer mu.Unlock()
			states[state]++
		})
	}
	all.Wait()
	for _, state := range serverStates {
		c <- prometheus.MustNewConstMetric(serversMetric, prometheus.GaugeValue, float64(states[state]), state)
	}
}

// collect returns the state of a server.
func (m serverMetrics) collect(s *server, c chan<- prometheus.Metric) string {
	if !s.isReady() {
		return "starting"
	}
	st, err := m.status(s.key)
	if err != nil {
		return "silent"
	}
	for _, p := range perServer {
		if st.Counts == nil {
			break
		}
		p.each(&st, func(value int64, labels ...string) {
			c <- prometheus.MustNewConstMetric(p.desc, p.kind, float64(value), append([]string{s.serves.public(), s.key}, labels...)...)
		})
	}
	if len(st.Health.Changed) > 0 {
		return "changed"
	}
	return "ok"
}
