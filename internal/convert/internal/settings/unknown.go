package settings

import (
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// checkUnknown refuses a config.json with a field that may change what the model computes,
// and that the description of the architecture does not know. Where transformers has the
// model type itself, the fields that it reads are known, and so are the ones that llama.cpp's
// converter reads: any other field changes nothing, and is noted.
func (s *Model) checkUnknown() {
	top := s.cfg.top.Value("model_type")
	text := s.cfg.text.Value("model_type")
	s.checkObject("", text, s.cfg.text)
	s.checkObject("", top, s.cfg.top)
	counts := s.cfg.ropePaths()
	for i, o := range []jsonobj.Object{s.cfg.text, s.cfg.top} {
		modelType := []any{text, top}[i]
		for _, name := range architectures.RopeObjects {
			if !slices.ContainsFunc(counts, func(path string) bool {
				return strings.HasPrefix(path+".", []string{textScope, ""}[i]+name+".")
			}) {
				continue // nothing in it is read
			}
			rope := o.Object(name)
			s.checkRopeMembers(name, modelType, rope)
			for kind := range rope.All() {
				s.checkRopeMembers(name+"."+kind, modelType, rope.Object(kind))
			}
		}
	}
	s.noteWindow()
	s.noteUnread()
}

// checkUnknownTower does the same for the fields of a vision tower, whose class is often not
// the one that its own model_type names. A tower with code of its own is not checked.
func (s *Model) checkUnknownTower(top jsonobj.Object, part architectures.Part) {
	class, own := top.Value("model_type"), s.cfg.text.Value("model_type")
	s.checkBesideTower(top, s.classReads(top, class))
	if s.reads = s.programsRead(top, class, own); s.reads == nil {
		s.reads = s.programsRead(top, class)
	}
	if s.reads == nil {
		return
	}
	for _, name := range []any{own, class} {
		if tower := fmt.Sprint(name) + "_" + string(part); s.reads.HasType(tower) {
			own = tower
			break
		}
	}
	s.checkObject("", own, s.cfg.text)
	s.checkTowerRope(own)
	s.noteUnread()
}

// towerTheta is the base of rotary embeddings in towers of llama.cpp and transformers, unless the class has another.
const towerTheta = 10000

// checkTowerRope refuses rotary embeddings of a tower that are not the usual ones of its class: a file has no key for them.
func (s *Model) checkTowerRope(modelType any) {
	of, _ := modelType.(string)
	if s.reads.Own(of, "rope_parameters") == "" && s.reads.Own(of, "rope_theta") == "" {
		return // the class does not rotate
	}
	usual := towerTheta * 1.0
	if own, err := strconv.ParseFloat(s.reads.Own(of, "rope_theta"), 64); err == nil {
		usual = own
	}
	theta, ok := s.cfg.Number("rope_scaling.rope_theta", "rope_parameters.rope_theta", "rope_theta")
	switch kind := s.cfg.Word("rope_scaling.rope_type", "rope_scaling.type", "rope_parameters.rope_type", "rope_parameters.type"); {
	case ok && theta != usual:
		s.refuse("rope_theta is %v, and llama.cpp has %v for a tower of %s", theta, usual, s.arch.Name)
	case kind != "" && kind != "default" && kind != "axial":
		s.refuse("rotary embeddings are of the kind %s, which llama.cpp does not have for a tower of %s", tensorfs.Quote(kind), s.arch.Name)
	}
}

// besideTower are the fields outside of vision_config that say what becomes of a picture.
var besideTower = []string{"*vision_*", "*projector*", "mm_*", "downsample_*", "scale_factor", "spatial_merge_size", "pixel_shuffle_ratio"}

// checkBesideTower refuses a field beside vision_config that the model's class reads, unless the
// description asks for it, or it has the value that is the class's own.
func (s *Model) checkBesideTower(top jsonobj.Object, reads *architectures.Reads) {
	of, _ := top.Value("model_type").(string)
	for name, raw := range top.All() {
		shown := func(item architectures.Setting) bool { // by tensors
			return item.Name == name && s.arch.Constant(name) == nil
		}
		matches := func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok }
		switch {
		case raw.Kind() == '{' || strings.Contains(name, "_token") || !slices.ContainsFunc(besideTower, matches):
		case s.cfg.asked["model."+name] || slices.ContainsFunc(s.arch.Config, shown) || s.arch.Has("known", "model."+name) || s.isConstant(name, top.Value(name)) || reads.Own(of, name) == "":
		case !isDefault(reads.Own(of, name), raw, top.Value(name)):
			s.refuse("%s is %s, and what it means for a tower of %s is not known", tensorfs.Quote(name), Shown(top.Value(name)), s.arch.Name)
		}
	}
}

// noteWindow notes a window of attention that a GGUF file of the architecture does not have.
func (s *Model) noteWindow() {
	window, ok := s.cfg.Integer("sliding_window")
	if context := s.count("max_seq_len"); !ok || window < 1 || window >= context && context > 0 || s.has("sliding_window") || s.reads != nil && !s.reads.Has("sliding_window") {
		return
	}
	uses, said := s.cfg.Flag("use_sliding_window")
	modelType, _ := s.cfg.Value("model_type").(string)
	isOff := s.reads != nil && s.reads.Default(modelType, "use_sliding_window") == "false" // a class that has to be asked
	if kinds := s.cfg.Words("layer_types"); kinds != nil {
		if !slices.Contains(kinds, architectures.WindowLayer) {
			return
		}
	} else if full, ok := s.cfg.Integer("max_window_layers"); said && !uses || !said && isOff || ok && isOff && full >= s.count("n_layers") {
		return
	}
	s.notes = append(s.notes, fmt.Sprintf("config.json: sliding_window %d is left out: tokens of a GGUF file of %s see all tokens before them, so texts of more than %d tokens are answered otherwise", window, s.arch.GGUF, window))
}

// programsRead returns the fields that programs read, nil if code that is beside config.json
// may read others.
func (s *Model) programsRead(top jsonobj.Object, modelTypes ...any) *architectures.Reads {
	for name := range top.Object("auto_map").All() {
		if strings.HasPrefix(name, "AutoConfig") || strings.HasPrefix(name, "AutoModel") {
			return nil
		}
	}
	return s.classReads(top, modelTypes...)
}

// classReads returns the fields that programs read if they have the model types themselves, nil
// otherwise.
func (s *Model) classReads(top jsonobj.Object, modelTypes ...any) *architectures.Reads {
	var types []string
	for _, t := range modelTypes {
		if name, _ := t.(string); name != "" {
			types = append(types, name)
		}
	}
	if len(types) == 0 {
		return nil
	}
	class := ""
	if classes := (Fields{top: top, text: s.cfg.text}).Words("architectures"); len(classes) > 0 {
		class = classes[0]
	}
	return architectures.ReadsOf(types, class)
}

// checkObject does it for the members of an object, whose path is "" or ends with a dot.
func (s *Model) checkObject(path string, modelType any, o jsonobj.Object) {
	for name := range o.All() {
		full := path + name
		switch {
		case s.cfg.asked[full] || s.arch.Knows(full) || s.isConstant(full, o.Value(name)):
		case o.Raw(name).Kind() == '{' && s.cfg.askedInside(full):
			s.checkObject(full+".", modelType, o.Object(name))
		case s.cfg.askedInside(full+strings.TrimSuffix(architectures.EachElement, ".")) && s.cfg.objects(full) != nil:
			for _, element := range s.cfg.objects(full) {
				s.checkObject(full+architectures.EachElement, modelType, element)
			}
		default:
			s.checkField(full, modelType, o.Raw(name), o.Value(name))
		}
	}
}

// isConstant reports whether a field has the value that the description has for it.
func (s *Model) isConstant(name string, v any) bool {
	want := s.arch.Constant(name)
	if n, ok := want.(int64); ok {
		want = float64(n)
	}
	if x, ok := finite(v); ok {
		v = x
	}
	switch v.(type) {
	case string, bool, float64:
		return v == want
	}
	return false
}

func (s *Model) checkRopeMembers(object string, modelType any, o jsonobj.Object) {
	for name, raw := range o.All() {
		if raw.Kind() != '{' && !s.cfg.askedRope[name] && !s.arch.Knows("rope."+name) {
			s.checkField(object+"."+name, modelType, raw, o.Value(name))
		}
	}
}

// checkField refuses a field that the description does not know, unless it changes nothing.
func (s *Model) checkField(name string, modelType any, raw jsonobj.Raw, v any) {
	last := name[strings.LastIndexByte(name, '.')+1:]
	of, _ := modelType.(string)
	switch {
	case v == nil, raw.Kind() == '"' && v == "", v == tensorfs.JSON("{}"):
		return
	case name == "layer_types" && s.class != nil && s.reads != nil && s.reads.Has("sliding_window") && s.areWindows(v): // see noteWindow
		return
	case s.repeatsEpsilon(last, v):
		return
	case s.reads == nil && !saysNothing(last, v), s.reads != nil && s.reads.Has(last) && !isDefault(s.reads.Default(of, last), raw, v):
		s.refuse("%s is %s, and what it means for a model of %s is not known", tensorfs.Quote(name), Shown(v), s.arch.GGUF)
	case s.reads == nil, !s.reads.Has(last):
		s.unread = append(s.unread, name)
	}
}

// repeatsEpsilon reports whether a field is another spelling of the epsilon of norms that the file has.
func (s *Model) repeatsEpsilon(name string, v any) bool {
	x, ok := finite(v)
	return ok && slices.ContainsFunc([]string{"rms_norm_eps", "layer_norm_eps"}, func(fact string) bool {
		return s.known[fact] == x && slices.ContainsFunc([]string{"rms_norm_eps", "layer_norm_eps"}, func(other string) bool {
			return slices.Contains(architectures.FactOf(other).Fields, name)
		})
	})
}

// areWindows reports whether layers see everything or the window that config.json states, and nothing else. Without a
// window, transformers does not run layers that want one.
func (s *Model) areWindows(v any) bool {
	list, ok := v.(tensorfs.Array)
	if !ok {
		return false
	}
	window, _ := s.cfg.Integer("sliding_window")
	for kind := range list.Values() {
		if kind != architectures.FullLayer && (kind != architectures.WindowLayer || window < 1) {
			return false
		}
	}
	return true
}

// mostNames bounds the names in a note.
const mostNames = 12

// noteUnread notes the fields that are left out.
func (s *Model) noteUnread() {
	if len(s.unread) == 0 {
		return
	}
	names := make([]string, 0, mostNames)
	for _, name := range s.unread[:min(mostNames, len(s.unread))] {
		names = append(names, tensorfs.Quote(name))
	}
	list := strings.Join(names, ", ")
	if more := len(s.unread) - len(names); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	why := "neither transformers nor llama.cpp's converter reads such a field for this model"
	if s.reads == nil {
		why = "what only the model's own code may read, and is false, 0 or a name, is taken to change nothing"
	}
	s.notes = append(s.notes, fmt.Sprintf("%s: %s: left out; %s", s.cfg.file, list, why))
}

// isDefault reports whether a value is what a program takes without the field.
func isDefault(want string, raw jsonobj.Raw, v any) bool {
	if want == "" || want == "null" {
		_, isText := v.(string)
		return !isText && saysNothing("", v)
	}
	var a, b any
	if len(raw.String()) > 1<<10 || json.Unmarshal([]byte(want), &a) != nil || json.Unmarshal([]byte(raw.String()), &b) != nil {
		return false
	}
	return reflect.DeepEqual(a, b)
}

// meaningful are parts of names whose texts are not the names of something.
var meaningful = []string{"act", "alibi", "attention", "attn", "func", "kind", "method", "mode", "norm", "position", "rope", "rotary", "type"}

// saysNothing reports whether a field has a value that changes nothing: null, false, 0,
// an empty one, layers that all see everything, or a text that only names something.
func saysNothing(name string, v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == "" || !slices.ContainsFunc(meaningful, func(part string) bool { return strings.Contains(name, part) })
	case tensorfs.JSON:
		return v == "{}"
	case tensorfs.Array:
		for e := range v.Values() {
			if e != architectures.FullLayer {
				return false
			}
		}
		return true
	}
	x, ok := finite(v)
	return ok && x == 0
}
