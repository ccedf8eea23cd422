// Reads the Parquet files that a JSON array on the standard input names, whole, and prints an array of their rows.
import { readFileSync } from 'node:fs'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'

const rows = []
for (const path of JSON.parse(readFileSync(0, 'utf8'))) {
  rows.push(...(await parquetReadObjects({ file: await asyncBufferFromFile(path), compressors, utf8: false })))
}
console.log(JSON.stringify(rows, (_, v) => {
  if (typeof v === 'bigint') return v.toString()
  return v instanceof Uint8Array ? Buffer.from(v).toString('base64') : v
}))
