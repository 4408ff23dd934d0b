// Package watch tells when a configuration file has new content. A [Watcher]
// survives what editors, cluster managers and full disks do to a file.
package watch
