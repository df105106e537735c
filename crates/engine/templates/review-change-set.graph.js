export const meta = {
  name: "Review a change set",
  description: "Three judges with different eyes read each changed file; a finding counts when at least two of the other judges agree with it.",
  phases: [
    { title: "Find", detail: "one agent per file" },
    { title: "Judge", detail: "three agents per finding" },
  ],
  args: {
    type: "object",
    properties: {
      diff: { type: "string", minLength: 1, description: "The change set as a unified diff, or absolute path of a .diff or .patch file." },
      focus: { type: "string", description: "What matters most, like correctness or security." },
    },
    required: ["diff"],
    additionalProperties: false,
  },
  tools: ["read_file"],
};

const FINDINGS = {
  type: "object",
  properties: {
    findings: {
      type: "array",
      maxItems: 8,
      items: {
        type: "object",
        properties: {
          line: { type: "integer" },
          severity: { enum: ["low", "medium", "high"] },
          claim: { type: "string", description: "What is wrong and when it shows, in one or two sentences." },
        },
        required: ["severity", "claim"],
      },
    },
  },
  required: ["findings"],
};
const VERDICT = {
  type: "object",
  properties: { agrees: { type: "boolean" }, reason: { type: "string" } },
  required: ["agrees", "reason"],
};
const JUDGES = [
  { name: "sceptic", system: "You try to refute claims about code. Agree only if you cannot." },
  { name: "user", system: "You judge whether a claimed problem would ever be noticed by somebody who uses the program." },
  { name: "maintainer", system: "You judge whether a claimed problem is real and worth fixing in this change." },
];

const isPath = !args.diff.includes("\n") && /\.(diff|patch)$/.test(args.diff);
const diff = isPath ? (await tool("read_file", { path: args.diff })).text : args.diff;

// One piece per file of the diff.
const pieces = [];
for (const line of lines(diff)) {
  if (line.startsWith("diff --git ") || (line.startsWith("--- ") && (pieces.length === 0 || pieces.at(-1).hasHunk))) {
    pieces.push({ path: "", text: [], hasHunk: false });
  }
  const piece = pieces.at(-1);
  if (piece === undefined) continue;
  if (line.startsWith("+++ ")) piece.path = line.slice(4).replace(/^b\//, "");
  if (line.startsWith("@@")) piece.hasHunk = true;
  piece.text.push(line);
}
const files = pieces.filter((piece) => piece.hasHunk);
if (files.length === 0) return { summary: "The change set is empty.", files: 0, confirmed: [] };
log(files.length + " changed files");

const focus = args.focus === undefined ? "" : " What matters most here: " + args.focus + ".";
const reviewed = await pipeline(
  files,
  (file) =>
    agent("Review this change. Name only problems it introduces, none that were there before." + focus + "\n\n" + file.text.join("\n"), {
      label: "find " + file.path,
      phase: "Find",
      schema: FINDINGS,
      tools: [],
    }),
  async (found, file) => {
    const judged = await parallel(
      found.findings.map((finding) => async () => {
        const votes = await parallel(
          JUDGES.map((judge) => () =>
            agent("Is this claim about the change true?\n\nClaim: " + finding.claim + "\n\n" + file.text.join("\n"), {
              label: judge.name + " on " + file.path,
              phase: "Judge",
              system: judge.system,
              schema: VERDICT,
              tools: [],
            }),
          ),
        );
        const agreeing = votes.filter((vote) => vote !== null && vote.agrees).length;
        return { path: file.path, ...finding, agreeing };
      }),
    );
    return judged.filter((finding) => finding !== null && finding.agreeing >= 2);
  },
);

const order = ["high", "medium", "low"];
const confirmed = reviewed
  .filter((list) => list !== null)
  .flat()
  .sort((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity));
const notReviewed = files.filter((_, i) => reviewed[i] === null).map((file) => file.path);
return {
  summary: confirmed.length + " confirmed findings in " + files.length + " files" + (notReviewed.length > 0 ? "; " + notReviewed.length + " files could not be reviewed" : ""),
  files: files.length,
  confirmed,
  not_reviewed: notReviewed,
};
