module github.com/slidingttl/slidingttl

go 1.26.0
