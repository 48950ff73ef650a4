package link

import "golang.org/x/crypto/ssh"

// Algorithms are what a link and its guest agreed on.
func Algorithms(l *Link) ssh.NegotiatedAlgorithms {
	return l.conn.(ssh.AlgorithmsConnMetadata).Algorithms()
}
