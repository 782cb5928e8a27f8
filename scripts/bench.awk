# Turns the lines of Go's benchmarks into Markdown: a table for each benchmark, a
# row for each of its sub-benchmarks, in which a value is the median of all lines
# of that name. Units that mean something here:
#
#   of:ROW, x:ROW   go into one column, "compared"
#   >=UNIT, <=UNIT  aims for UNIT go into one column, with the verdict beside it
#   ns/op, MB/s, B/op, allocs/op are left out
#
# The last part of a name of BenchmarkDecode is the implementation: plain Go is a
# column, and the others have the row.
BEGIN {
	split("ns/op MB/s B/op allocs/op", words, " ")
	for (i in words) skipped[words[i]] = 1
	first["GB/s"] = first["ms"] = first["MiB"] = 1 # the columns with a spread, at the left
	title["Decode"] = "Decoding"
	title["Read"] = "Whole tensors"
	title["NFS"] = "Whole tensors by NFS"
	title["InProcess"] = "Loading without a mount"
	title["Whole"] = "Whole models"
	title["Adapted"] = "f16/ with an adapter, in memory"
	title["Merged"] = "f16/ of merges, in memory"
	title["Measure"] = "Describing and comparing"
	title["Cold"] = "Models on a cold disk"
	title["Remote"] = "Models on a server, 20 ms away"
	title["List"] = "Listing 50,000 files"
	title["Start"] = "Starting"
	title["Memory"] = "The server's memory (RssAnon)"
}
/^Note: / && !($0 in noted) { noted[$0]; notes = notes "\n" $0 "\n" }
/^Benchmark/ && NF > 3 {
	row = substr($1, length("Benchmark") + 1)
	sub(/-[0-9]+$/, "", row) # the number of processors
	top = row
	sub(/\/.*/, "", top)
	sub(/^[^\/]*\//, "", row)
	if (top == "Decode") {
		kind = row
		sub(/.*\//, "", kind)
		sub(/\/[^\/]*$/, "", row)
		fresh = kind != latest[row]
		latest[row] = kind
	}
	if (!(top in rows)) tops[++ntops] = top
	if (!((top, row) in known)) {
		known[top, row]
		names[top, ++rows[top]] = row
	}
	for (i = 3; i < NF; i += 2) {
		if (top == "Decode" && $(i + 1) == "GB/s" && kind == "go") add("GB/s-in-plain-Go", $i)
		if (fresh) count[top, row, $(i + 1)] = 0
		add($(i + 1), $i)
	}
	fresh = 0
}
function add(unit, x, base) {
	value[top, row, unit, ++count[top, row, unit]] = x
	if (unit in skipped) return
	base = unit
	if (sub(/^[<>]=/, "", base)) aim[top, row, base] = unit
	else if (unit ~ /^(of|x):/) compared[top, row] = unit
	else if (!((top, unit) in seen)) {
		seen[top, unit]
		if (unit in first) lead[top] = lead[top] " " unit
		else rest[top] = rest[top] " " unit
	}
}
# median leaves the values of a row in sorted[1..n].
function median(unit, i, j, x) {
	n = count[top, row, unit]
	for (i = 1; i <= n; i++) {
		x = value[top, row, unit, i] + 0
		for (j = i; j > 1 && sorted[j - 1] > x; j--) sorted[j] = sorted[j - 1]
		sorted[j] = x
	}
	return (sorted[int((n + 1) / 2)] + sorted[int(n / 2) + 1]) / 2
}
function digits(x) { return sprintf(x >= 100 ? "%.0f" : x >= 10 ? "%.1f" : "%.2f", x) }
# judge adds what a value should be, and whether it is, to the last two cells. It
# judges ratios as they are shown.
function judge(unit, ratio, wanted, least, x) {
	if (!((top, row, unit) in aim)) return
	least = aim[top, row, unit] ~ /^>/
	wanted = median(aim[top, row, unit])
	x = median(unit)
	if (ratio) x = sprintf("%.2f", x) + 0
	want = want (want ? ", " : "") (least ? "at least " : "at most ") (ratio ? sprintf("%.2f", wanted) : wanted " " unit)
	met = (least ? x >= wanted : x <= wanted) && met != "no" ? "yes" : "no"
}
END {
	for (t = 1; t <= ntops; t++) {
		top = tops[t]
		columns = split(lead[top] rest[top], unit, " ")
		ratios = aims = 0
		for (key in compared) if (index(key, top SUBSEP) == 1) ratios = 1
		for (key in aim) if (index(key, top SUBSEP) == 1) aims = 1
		row = names[top, 1]
		median(unit[1])
		printf "\n#### %s\n\n", top in title ? title[top] : top
		if (n > 1) printf "Medians of %d passes (least to largest).\n\n", n
		head = "| what |"
		rule = "|---|"
		for (c = 1; c <= columns; c++) {
			name = unit[c]
			gsub(/-/, " ", name)
			head = head " " name " |"
			rule = rule "--:|"
		}
		print head (ratios ? " compared |" : "") (aims ? " aim | met |" : "")
		print rule (ratios ? "---|" : "") (aims ? "---|---|" : "")
		for (r = 1; r <= rows[top]; r++) {
			row = names[top, r]
			want = met = ""
			line = "| " row " |"
			for (c = 1; c <= columns; c++) {
				cell = ""
				if (count[top, row, unit[c]]) {
					cell = digits(median(unit[c]))
					if (n > 1 && unit[c] in first) cell = cell " (" digits(sorted[1]) " to " digits(sorted[n]) ")"
					judge(unit[c], 0)
				}
				line = line " " cell " |"
			}
			if (ratios) {
				cell = ""
				if ((top, row) in compared) {
					to = compared[top, row]
					cell = sprintf("%.2f", median(to))
					judge(to, 1)
					cell = cell (sub(/^of:/, "", to) ? " of " : " times ")
					sub(/^x:/, "", to)
					cell = cell to
				}
				line = line " " cell " |"
			}
			print line (aims ? " " want " | " met " |" : "")
		}
	}
	printf "%s", notes
}
