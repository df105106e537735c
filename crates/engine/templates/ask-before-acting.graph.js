export const meta = {
  name: "Ask before acting",
  description: "Lets an agent plan a small change of one file, shows you the plan, and changes the file only if you say so.",
  phases: ["Plan", "Ask", "Act"],
  args: {
    type: "object",
    properties: {
      file: { type: "string", minLength: 1, description: "Absolute path of the file to change." },
      wish: { type: "string", minLength: 1, description: "What should be different afterwards." },
    },
    required: ["file", "wish"],
    additionalProperties: false,
  },
  tools: ["read_file", "edit_file"],
};

const PLAN = {
  type: "object",
  properties: {
    summary: { type: "string", description: "The change in one sentence, for its owner." },
    old: { type: "string", minLength: 1, description: "The text to replace, exactly as it stands in the file, occurring once." },
    new: { type: "string", description: "The text to put in its place." },
  },
  required: ["summary", "old", "new"],
};

phase("Plan");
const before = await tool("read_file", { path: args.file });
if (before.truncated) return { changed: false, summary: args.file + " is too long to change safely." };
const plan = await retry(
  3,
  async () => {
    const made = await agent("Plan one edit of this file.\n\nWish: " + args.wish + "\n\nFile " + args.file + ":\n" + before.text, {
      label: "plan",
      schema: PLAN,
      tools: [],
    });
    // Thrown on purpose, so that the plan is made again.
    if (before.text.split(made.old).length !== 2) throw new Error("the text to replace does not occur exactly once");
    return made;
  },
  { delay_s: 0 },
);

phase("Ask");
const answer = await ask(plan.summary + "\n\nReplace:\n" + plan.old + "\n\nBy:\n" + plan.new, { options: ["change it", "leave it"], default: "leave it" });
if (answer !== "change it") return { changed: false, summary: "Nothing was changed. The plan was: " + plan.summary, plan };

phase("Act");
await tool("edit_file", { path: args.file, old: plan.old, new: plan.new });
return { changed: true, summary: plan.summary, file: args.file };
