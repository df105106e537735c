// Sources of the sample Graphs.
export const REVIEW = `export const meta = {
  name: "Review a change set with three judges",
  description: "Finds defects in a change set; three judges vote on each.",
  phases: ["Read", "Find", "Judge", "Report"],
  args: {
    type: "object",
    properties: {
      base: { type: "string", description: "branch to compare with", default: "main" },
      focus: { type: "array", items: { type: "string" }, default: ["bugs", "security", "speed"] },
      strict: { type: "boolean", description: "two of three agree", default: true },
      depth: { type: "string", enum: ["quick", "normal", "thorough"], default: "normal" },
    },
    required: ["base"],
  },
  tools: ["run_command", "read_file", "search_files"],
  models: ["default"],
  limits: { token_ceiling: 200000, max_concurrency: 4 },
};

phase("Read");
const diff = await tool("run_command",
  { argv: ["git", "diff", args.base] });
const groups = await agent(group(diff.stdout),
  { label: "Group files", schema: GROUPS });

phase("Find");
const found = await parallel(
  args.focus.map((kind) => () =>
    retry(2, () => agent(find(kind, groups), {
      label: \`Find \${kind}\`, schema: FINDINGS,
    }), { on: ["bad_output"] })));

phase("Judge");
const worst = found.flat().filter(Boolean).slice(0, 6);
const judged = await pipeline(worst,
  (finding) => agent(restate(finding),
    { label: "Restate", max_tokens: 800 }),
  (claim) => parallel(JUDGES.map((judge) => () =>
    agent(judge.ask(claim), {
      label: judge.label, schema: VERDICT,
    }))),
);
const kept = judged.filter((votes) =>
  votes.filter((vote) => vote.keep).length >= 2);
phase("Report");
return agent(report(judged), { label: "Write report" });
`;

export const DIGEST = `export const meta = {
  name: "Folder digest",
  description: "Counts, longest files and word frequencies of a folder.",
  args: { type: "object", properties: { folder: { type: "string" }, out: { type: "string", default: "digest.md" } }, required: ["folder"] },
  tools: ["list_files", "read_file", "write_file"],
};

phase("Walk");
const files = await tool("list_files", { path: args.folder });
const texts = await pipeline(files, (file) => tool("read_file", { path: file.path }));

phase("Write");
if (texts.length === 0) {
  log("nothing to read");
} else {
  await tool("write_file", { path: args.out, text: digest(texts) });
}
return { files: files.length };
`;

export const SIMPLE = `export const meta = {
  name: "Three steps",
  description: "Reads, thinks, writes.",
};

const notes = await tool("read_file", { path: "notes.md" });
const plan = await agent(\`Make a plan of:\\n\${notes}\`, { label: "Plan" });
return agent(\`Write it up:\\n\${plan}\`, { label: "Write" });
`;

export const BRANCH = `export const meta = { name: "Sort by kind", description: "Asks one agent what it is, then takes the right way." };

const kind = await agent("What is it?", { label: "Classify" });
if (kind === "bug") {
  await agent("Reproduce it", { label: "Reproduce" });
} else {
  await agent("Answer it", { label: "Answer" });
}
return kind;
`;

export const PAGES = `export const meta = { name: "Page by page", description: "Each page by two readers." };

const pages = await tool("list_files", { path: "pages" });
return parallel(pages.map((page) => async () => {
  const draft = await agent("Translate " + page, { label: "Translate" });
  return agent("Read " + draft, { label: "Second reader" });
}));
`;
