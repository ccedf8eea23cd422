// Package s3 keeps an archive in a bucket of Amazon S3, or of a compatible server.
//
//	bucket, err := s3.New(awss3.NewFromConfig(cfg), "links-archive", &s3.Options{SSEKMSKey: "alias/archive"})
//	...
//	w, err := archive.NewWriter(bucket, nil)
//
// Each file is written by one PutObject with If-None-Match. So a file appears whole or not at
// all, and never replaces another one. The server must support that header; AWS does since
// August 2024. [archive.Check] tests it.
//
// The program needs these permissions:
//
//   - s3:ListBucket, s3:GetObject and s3:PutObject;
//   - to remove files, s3:DeleteObject and s3:GetBucketVersioning;
//   - if the bucket keeps versions, s3:ListBucketVersions and s3:DeleteObjectVersion;
//   - with Object Lock, s3:GetObjectRetention and s3:GetObjectLegalHold;
//   - with SSE-KMS, kms:GenerateDataKey and kms:Decrypt.
//
// Removing a file removes all its versions. A version under Object Lock stays, in either mode,
// and [archive.Forget] reports until when (*archive.LockedError). Forget does not reach a
// replica of the bucket: run it there too.
//
// # Storage classes
//
// With [Options].Tiers the age of a file's day decides its storage class. Some classes bill a
// small file as a larger one, and a file that is removed soon for a minimum time. So compact a
// day before its first tier. If the bucket keeps versions, the version in the former class
// stays until the file is removed.
//
// # Encryption by the client
//
// With Options.Materials, AWS's S3 Encryption Client encrypts files before they leave the
// program. File names are not encrypted. Such an object can only be read as a whole. So a
// look-up reads each file in full, and keeps the last ones in memory (Options.CacheBytes).
// Programs without the client and the key, such as DuckDB, cannot read them.
//
// The client is release 3.2, by which AWS prepares for release 4. It writes files without key
// commitment, and reads files with and without. A program with release 4 reads these
// files if its CommitmentPolicy is REQUIRE_ENCRYPT_ALLOW_DECRYPT, which is not its default.
package s3
