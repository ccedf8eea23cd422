// Package s3 keeps an archive in a bucket of Amazon S3, or of a server that speaks its
// protocol.
//
//	bucket, err := s3.New(awss3.NewFromConfig(cfg), "links-archive", &s3.Options{SSEKMSKey: "alias/archive"})
//	...
//	w, err := archive.NewWriter(bucket, nil)
//
// A file is one PutObject with If-None-Match, so it is there whole or not at all, and none takes
// the place of another. The server must know that header; AWS does since August 2024.
// [Bucket.Check] tells.
//
// The program needs s3:ListBucket, s3:GetObject and s3:PutObject, for what removes files
// s3:DeleteObject and s3:GetBucketVersioning, and where the bucket keeps versions
// s3:ListBucketVersions and s3:DeleteObjectVersion, under Object Lock s3:GetObjectRetention and
// s3:GetObjectLegalHold; with SSE-KMS kms:GenerateDataKey and kms:Decrypt. What is removed is removed
// in all its versions. One under Object Lock stays, in either mode, and [archive.Forget] says until when
// (*archive.LockedError). A replica of the bucket is out of reach: it has its own Forget.
//
// # Storage classes
//
// With [Options].Tiers a file is in the class that the age of its day asks for. Some classes bill
// small files, and those that are removed soon, as larger and for longer: compact a day before
// its first tier. Where the bucket keeps versions, the one in the former class stays until the file is
// removed.
//
// # Encryption by the client
//
// With Options.Materials files are encrypted before they leave the program, by AWS's S3
// Encryption Client. Names are not. Such an object can only be read as a whole: a look-up
// reads all of each file it looks into, and keeps the last ones in memory
// (Options.CacheBytes). Only who has the client and the key reads them, so no DuckDB does.
package s3
