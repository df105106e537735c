export const meta = {
  name: "Folder digest",
  description:
    "Reads every Markdown file of a folder, counts files, lines and words, finds the longest file and the most frequent words, and writes digest.md into the output folder. Needs no model.",
  phases: ["List", "Read", "Write"],
  args: {
    type: "object",
    properties: {
      folder: { type: "string", minLength: 1, description: "Absolute path of the folder to read." },
      output: { type: "string", minLength: 1, description: "Absolute path of the folder that digest.md is written into." },
      top: { type: "integer", minimum: 1, maximum: 100, description: "How many frequent words to list; 20 by default." },
    },
    required: ["folder", "output"],
    additionalProperties: false,
  },
  tools: ["list_files", "read_file", "write_file"],
};

// Words too common to say anything.
const COMMON = new Set(
  ("a an and are as at be been but by can does each every for from had has have how if in into is it its may more most must no not of " +
    "on one only or other our out over same so such than that the their them then there these they this to two up was we were what when " +
    "where which who will with would you your").split(" "),
);
const top = args.top ?? 20;

phase("List");
const listed = await tool("list_files", { path: args.folder, glob: "**/*.md" });
const files = listed.entries.filter((entry) => entry.kind === "file");
if (listed.truncated) log("The folder holds more files than one listing shows; the digest covers the first " + files.length + ".");
log(files.length + " Markdown files in " + listed.path);

phase("Read");
const frequency = new Map();
// What stands between two spaces mostly comes again: its words are looked for once.
const wordsOf = new Map();
const wordsIn = (piece) => {
  let words = wordsOf.get(piece);
  if (words === undefined) {
    words = piece.toLowerCase().match(/[\p{L}\p{N}]+(?:['’-][\p{L}\p{N}]+)*/gu) ?? [];
    wordsOf.set(piece, words);
  }
  return words;
};
const read = await pipeline(
  files,
  (entry) => tool("read_file", { path: entry.path }),
  (file, entry) => {
    const all = lines(file.text);
    let words = 0;
    for (const line of all) {
      for (const piece of line.split(" ")) {
        for (const word of wordsIn(piece)) {
          words += 1;
          if (word.length > 2 && !COMMON.has(word)) frequency.set(word, (frequency.get(word) ?? 0) + 1);
        }
      }
    }
    const name = entry.path.startsWith(listed.path) ? entry.path.slice(listed.path.length).replace(/^[/\\]/, "") : entry.path;
    return { path: name, lines: all.length, words, truncated: file.truncated };
  },
);

const done = read.filter((file) => file !== null);
const unreadable = files.filter((_, i) => read[i] === null).map((entry) => entry.path);
for (const path of unreadable) log("Could not be read: " + path);

const sum = (key) => done.reduce((total, file) => total + file[key], 0);
const byLength = done.toSorted((a, b) => b.words - a.words || (a.path < b.path ? -1 : 1));
const frequent = [...frequency].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, top);
const longest = byLength[0] ?? null;

phase("Write");
const cell = (text) => text.replaceAll("|", "\\|");
const page = [
  "# Digest of " + listed.path,
  "",
  done.length + " Markdown files, " + sum("lines") + " lines, " + sum("words") + " words.",
  longest === null ? "There is nothing to read." : "The longest is " + longest.path + " with " + longest.words + " words.",
  "",
  "## Files",
  "",
  "| File | Lines | Words |",
  "|---|---:|---:|",
  ...byLength.map((file) => "| " + cell(file.path) + (file.truncated ? " (only its first part was read)" : "") + " | " + file.lines + " | " + file.words + " |"),
  "",
  "## Most frequent words",
  "",
  "| Word | Times |",
  "|---|---:|",
  ...frequent.map(([word, times]) => "| " + cell(word) + " | " + times + " |"),
];
if (unreadable.length > 0) page.push("", "## Not read", "", ...unreadable.map((path) => "- " + path));
const separator = args.output.includes("\\") ? "\\" : "/";
const target = args.output.replace(/[/\\]+$/, "") + separator + "digest.md";
await tool("write_file", { path: target, content: page.join("\n") + "\n" });

// A summary and key values, not the page: what reads this may be an agent.
return {
  summary: done.length + " Markdown files with " + sum("words") + " words in " + listed.path + "; the digest is in " + target,
  files: done.length,
  lines: sum("lines"),
  words: sum("words"),
  longest: longest === null ? null : { path: longest.path, words: longest.words },
  top_words: frequent.slice(0, 10).map(([word, times]) => word + " " + times),
  unreadable: unreadable.length,
  written: target,
};
