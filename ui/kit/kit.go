// Package kit has what all screens are made of: styles from tokens, text that fits a width, boxes, keymaps, intents, and
// the [Screen] itself. It draws and decides; it touches nothing.
//
// Every text that a user, a file or a guest chose goes through [Cut], [Fit] or [Wrap], which pass it through
// internal/printable; a name that reaches a frame in another way is a bug. Read screen.go first, then keys.go and theme.go.
package kit
