export const meta = {
  name: "Nightly report",
  description: "Runs the Graph folder-digest on several folders, has an agent write what stands out, and keeps what it has when the ceiling is reached.",
  phases: ["Count", "Write"],
  args: {
    type: "object",
    properties: {
      folders: { type: "array", minItems: 1, maxItems: 20, items: { type: "string", minLength: 1 }, description: "Absolute paths of the folders to report on." },
      output: { type: "string", minLength: 1, description: "Absolute path of the folder for report.md and the digests." },
    },
    required: ["folders", "output"],
    additionalProperties: false,
  },
  tools: ["list_files", "read_file", "write_file"],
  limits: { token_ceiling: 60000 },
};

phase("Count");
// One after the other: each digest writes into its own folder below the output.
const digests = [];
for (const [i, folder] of args.folders.entries()) {
  try {
    const digest = await graph("folder-digest", { folder, output: args.output + "/" + (i + 1) });
    digests.push({ folder, ...digest });
    log(digest.summary);
  } catch (e) {
    if (!(e instanceof GraphError) || e.code !== "graph_failed") throw e;
    log(folder + " was left out: " + e.message);
  }
}

phase("Write");
let remarks = null;
try {
  remarks = await agent(
    "These are counts of folders with notes. Write a short paragraph on what stands out: growth, one-sided folders, odd frequent words.\n\n" +
      JSON.stringify(digests.map(({ folder, files, words, longest, top_words }) => ({ folder, files, words, longest, top_words }))),
    { label: "remarks", tools: [], max_tokens: 800 },
  );
} catch (e) {
  // A report without remarks is better than none.
  if (!(e instanceof AgentError)) throw e;
  log("No remarks: " + e.message);
}

const report = ["# Nightly report", "", new Date().toISOString().slice(0, 10), ""];
for (const digest of digests) report.push("- " + digest.folder + ": " + digest.files + " files, " + digest.words + " words");
if (remarks !== null) report.push("", remarks);
const target = args.output + "/report.md";
await tool("write_file", { path: target, content: report.join("\n") + "\n" });

return {
  summary: digests.length + " of " + args.folders.length + " folders reported on in " + target,
  folders: digests.length,
  words: digests.reduce((total, digest) => total + digest.words, 0),
  has_remarks: remarks !== null,
  written: target,
};
