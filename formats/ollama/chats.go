package ollama

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// chatTable has the layers that Ollama writes for ways to chat that it knows; its text
// explains its keys.
//
//go:embed chats.json
var chatTable []byte

// chat is a way to chat, and the layers that a model of it gets.
type chat struct {
	Name           string
	Marks, Without []string
	Letters        []int
	Template       string
	Stop           []string
}

var chats = sync.OnceValue(func() []chat {
	var table struct{ Chats []chat }
	if err := json.Unmarshal(chatTable, &table); err != nil {
		panic(err) // it is our own
	}
	return table.Chats
})

// otherwise is how many letters a chat template has more or less than one that Ollama
// knows before it is another. Ollama takes what is less than 100 edits from one, and
// templates that differ in length have other edits besides.
const otherwise = 64

// chatOf returns Ollama's description of a chat template, nil if Ollama would not recognise
// it.
func chatOf(template string) *chat {
	all, letters := chats(), utf8.RuneCountInString(template)
	has := func(mark string) bool { return strings.Contains(template, mark) }
	for i := range all {
		c := &all[i]
		near := func(known int) bool { return letters > known-otherwise && letters < known+otherwise }
		if slices.ContainsFunc(c.Letters, near) && !slices.ContainsFunc(c.Without, has) &&
			!slices.ContainsFunc(c.Marks, func(mark string) bool { return !has(mark) }) {
			return c
		}
	}
	return nil
}
