//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// decoding is what the benchmark of package kernel says of one type and
// implementation.
type decoding struct{ perNS, memcpy float64 } // memcpy: its time over memcpy's

// decodingAims are the speeds to reach, as shares of memcpy's speed for the same
// halves. Types that nobody waits for have none.
var decodingAims = map[string]float64{
	"F32": 0.95, "BF16": 0.85,
	"Q8_0": 0.8, "Q4_0": 0.75, "Q4_1": 0.75, "Q5_0": 0.7, "Q5_1": 0.7,
	"Q4_K": 0.9, "Q5_K": 0.8, "Q6_K": 0.7, "Q3_K": 0.5, "Q2_K": 0.6,
	"IQ4_NL": 0.7, "IQ4_XS": 0.7, "MXFP4": 0.7, "NVFP4": 0.6,
	"IQ2_XXS": 0.3, "IQ2_XS": 0.3, "IQ2_S": 0.3, "IQ3_XXS": 0.3, "IQ3_S": 0.3,
	"IQ1_S": 0.5, "IQ1_M": 0.5, "TQ1_0": 0.8, "TQ2_0": 0.8,
}

// kernels runs the benchmark of package kernel and puts its lines in a table.
func (b *bench) kernels() error {
	if _, err := exec.LookPath("go"); err != nil {
		b.say("  left out: %v", err)
		return nil
	}
	duration := "100ms"
	if b.quick {
		duration = "20ms"
	}
	cmd := b.command("go", "test", "-run", "^$", "-bench", "Decode", "-benchtime", duration, "./views/kernel")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	var types, implementations []string
	results := make(map[string]map[string]decoding)
	for in := bufio.NewScanner(strings.NewReader(string(out))); in.Scan(); {
		name, implementation, d, ok := parseDecoding(in.Text())
		if !ok {
			continue
		}
		if results[name] == nil {
			types = append(types, name)
			results[name] = make(map[string]decoding)
		}
		if !slices.Contains(implementations, implementation) {
			implementations = append(implementations, implementation)
		}
		results[name][implementation] = d
	}
	b.heading("Decoding", nil)
	head := []string{"type"}
	for _, i := range implementations {
		head = append(head, i+", elements/ns", i+", of memcpy")
	}
	rows := [][]string{append(head, "fastest, GB/s of f16", "aim, of memcpy", "met")}
	for _, name := range types {
		row, fastest := []string{name}, decoding{}
		for _, i := range implementations {
			d, ok := results[name][i]
			if !ok {
				row = append(row, "", "")
				continue
			}
			row = append(row, fmt.Sprintf("%.2f", d.perNS), fmt.Sprintf("%.2f", 1/d.memcpy))
			if d.perNS > fastest.perNS {
				fastest = d
			}
		}
		aim, met := "", ""
		if share, ok := decodingAims[name]; ok {
			aim, met = fmt.Sprintf("%.2f", share), verdict(1/fastest.memcpy >= share-0.005)
		}
		rows = append(rows, append(row, fmt.Sprintf("%.1f", 2*fastest.perNS), aim, met))
	}
	b.table(rows)
	return nil
}

// parseDecoding reads a line like
//
//	BenchmarkDecode/Q4_K/avx2-2  1393  39329 ns/op  26661 MB/s  13.33 el/ns  0.9122 x-memcpy  0 B/op
func parseDecoding(line string) (name, implementation string, d decoding, ok bool) {
	f := strings.Fields(line)
	if len(f) < 2 || !strings.HasPrefix(f[0], "BenchmarkDecode") {
		return "", "", d, false
	}
	title := strings.TrimPrefix(f[0], "BenchmarkDecode")
	if i := strings.LastIndexByte(title, '-'); i >= 0 { // the number of processors
		title = title[:i]
	}
	at := strings.LastIndexByte(title, '/')
	if at < 0 {
		return "", "", d, false
	}
	name, implementation = strings.ReplaceAll(strings.Trim(title[:at], "/"), "/", " "), title[at+1:]
	for i := 1; i < len(f); i++ {
		value, err := strconv.ParseFloat(f[i-1], 64)
		switch {
		case err != nil:
		case f[i] == "el/ns":
			d.perNS = value
		case f[i] == "x-memcpy":
			d.memcpy = value
		}
	}
	return name, implementation, d, d.perNS > 0 && d.memcpy > 0
}
