export const meta = {
  name: 'ceiling',
  description: 'Reaches its token ceiling in the middle of a wave and writes down what it has',
  limits: { token_ceiling: 1000, max_concurrency: 2 },
}

let first = null
try {
  first = await parallel(Array.from({ length: 6 }, (_, i) => () => agent('use 200 100', { label: `page ${i + 1}` })))
} catch (e) {
  log(`${e.code}: ${e instanceof AgentError}`)
}
const later = await parallel([() => agent('say never')]).catch(e => e.code)
const alone = await agent('say never either').catch(e => [e.code, e.retryable, e.usage.tokens])
const retried = await retry(3, () => agent('say nor this')).catch(e => [e.code, e.attempts.length])
const kept = await tool('echo', { kept: budget.spent() })
return { first, later, alone, retried, kept, remaining: budget.remaining() }
