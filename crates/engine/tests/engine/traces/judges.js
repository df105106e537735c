export const meta = {
  name: 'judges',
  description: 'Three judges, one of them unreliable; a wave that fails the same way is stopped',
}

let tries = 0
const verdicts = await parallel([
  () => agent('say approve', { label: 'correctness' }),
  () => retry(3, () => { tries += 1; return agent(tries < 3 ? 'fail rate_limited' : 'say approve', { label: 'security' }) }, { delay_s: 2, backoff: 3, on: ['rate_limited'] }),
  () => agent('fail schema', { label: 'taste' }),
])
const votes = verdicts.filter(v => v === 'approve').length
const stopped = await parallel(Array.from({ length: 8 }, (_, i) => () => agent(i % 2 ? 'say fine' : 'fail provider', { label: `check ${i}` })))
  .catch(e => ({ code: e.code, cause: e.cause.code }))
const inner = await parallel([
  async () => (await parallel([() => agent('say inner', { label: 'inner' })]))[0],
  () => { throw new Error('on purpose') },
])
const bug = await parallel([() => undefined.x]).catch(e => e.name)
return { votes, tries, stopped, inner, bug, chance: Math.floor(Math.random() * 1000) }
