// Runs the statements of a JSON array on the standard input, one after the other in a session, and prints an
// array of what each answers: rows, each an array of strings, or null for one that answers nothing.
import { readFileSync } from 'node:fs'
import { Session } from 'chdb'

const session = new Session()
try {
  const answers = JSON.parse(readFileSync(0, 'utf8')).map((statement) => {
    const text = session.query(statement, 'JSONCompactStrings')
    return text.trim() === '' ? null : JSON.parse(text).data
  })
  console.log(JSON.stringify(answers))
} finally {
  session.cleanup()
}
