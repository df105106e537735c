export const meta = {
  name: 'until-dry',
  description: 'Asks for more as long as there is something new and tokens are left',
  phases: [{ title: 'Search' }],
  limits: { token_ceiling: 5000, max_concurrency: 2 },
}

phase('Search')
const seen = new Set()
let rounds = 0
while (budget.total && budget.remaining() > 1500) {
  const batch = await parallel([1, 2].map(n => () => agent('use 300 200', { label: `round ${rounds + 1}.${n}` })))
  batch.filter(Boolean).forEach((answer, i) => seen.add(`${rounds}.${i}`))
  rounds += 1
  log(`${seen.size} found, ${Math.round(budget.remaining() / 1000)}k tokens left of ${budget.total}, ${budget.spent()} spent`)
  await sleep(5)
}
return { rounds, found: seen.size, remaining: budget.remaining(), minutes: (Date.now() - Date.UTC(2026, 10, 30, 14, 2, 7, 123)) / 60000 }
