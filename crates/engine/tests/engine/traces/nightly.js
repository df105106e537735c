export const meta = {
  name: 'nightly',
  description: 'Counts a folder with another Graph, asks before it writes',
  args: { type: 'object', properties: { folder: { type: 'string' } }, required: ['folder'] },
  tools: ['echo', 'deny'],
}

phase('Count')
const counted = await graph('count', { folder: args.folder })
const again = await workflow('count', { folder: 'again' })
phase('Write')
const answer = await ask(`Write the report of ${counted.files} files?`, { options: ['yes', 'no'], default: 'yes', timeout_s: 60 })
let written = null
if (answer === 'yes') written = await tool('echo', { path: '/report.md', lines: lines('one\ntwo\n') })
const refused = await tool('deny', {}).catch(e => [e instanceof ToolError, e.name, e.code, e.label])
const unasked = await ask('And without a default?').catch(e => [e instanceof AskError, e.code])
const missing = await graph('nowhere').catch(e => [e instanceof GraphError, e.name, e.code])
return { counted, again, written, refused, unasked, missing }
