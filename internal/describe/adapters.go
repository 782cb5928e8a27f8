package describe

import "github.com/tensorfs/tensorfs"

// WithAdapters is the name of a model with applied adapters.
func WithAdapters(shown string, m *tensorfs.Model) string {
	for _, a := range m.Adapters {
		shown += "+" + a.String()
	}
	return shown
}

// appliedLoRA is an adapter that is applied to a model.
type appliedLoRA struct {
	Source  string  `json:"source"`
	Scale   float64 `json:"scale"`
	Tensors int     `json:"tensors"` // that it changes
}

// adapterInfo is an adapter's description of itself.
type adapterInfo struct {
	Kind    string   `json:"kind"` // lora, rslora or dora
	Rank    int      `json:"rank"`
	Alpha   float64  `json:"alpha"`
	Base    string   `json:"base"`
	Targets []string `json:"targets"`
	Problem string   `json:"problem,omitempty"` // why it cannot be applied
}

// MergeInfo lists a merge's models.
type MergeInfo struct {
	Method string   `json:"method"`
	Models []string `json:"models"` // as the recipe calls them
}
