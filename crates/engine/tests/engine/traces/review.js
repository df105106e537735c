export const meta = {
  name: 'review-changes',
  description: 'Reviews each changed file for bugs and style, then has every finding checked by somebody else',
  phases: [
    { title: 'Find', detail: 'two looks at each file' },
    { title: 'Check', detail: 'each finding on its own' },
  ],
}

const FINDINGS = { type: 'object', properties: { findings: { type: 'array', items: { type: 'string' } } }, required: ['findings'] }
const DIMENSIONS = [
  { key: 'bugs', prompt: 'json {"findings":["off by one","lost error"]}' },
  { key: 'style', prompt: 'json {"findings":["long line"]}' },
  { key: 'docs', prompt: 'fail refused' },
]

const reviewed = await pipeline(
  DIMENSIONS,
  d => agent(d.prompt, { label: `find:${d.key}`, phase: 'Find', schema: FINDINGS }),
  (review, d) => parallel(review.findings.map(f => () =>
    agent(`say real: ${f}`, { label: `check:${d.key}`, phase: 'Check', model: 'small', tools: ['read_file'], max_tokens: 512, timeout_s: 30, system: 'Be strict.' })
      .then(verdict => ({ f, verdict }))
  ))
)
const confirmed = reviewed.filter(Boolean).flat().filter(Boolean)
log(`${confirmed.length} findings confirmed`)
return { confirmed }
