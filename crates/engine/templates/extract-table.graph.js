export const meta = {
  name: "Extract a table",
  description: "Reads texts of a folder and turns each into rows of one table with the columns you name; writes them as CSV.",
  phases: ["Extract", "Write"],
  args: {
    type: "object",
    properties: {
      folder: { type: "string", minLength: 1, description: "Absolute path of the folder with the texts." },
      glob: { type: "string", description: "Which files; **/*.{md,txt} by default." },
      columns: {
        type: "array",
        minItems: 1,
        maxItems: 20,
        items: {
          type: "object",
          properties: { name: { type: "string", minLength: 1 }, meaning: { type: "string" }, type: { enum: ["text", "number", "yes_no"] } },
          required: ["name"],
          additionalProperties: false,
        },
      },
      output: { type: "string", minLength: 1, description: "Absolute path of the CSV file to write." },
    },
    required: ["folder", "columns", "output"],
    additionalProperties: false,
  },
  tools: ["list_files", "read_file", "write_file"],
};

// The schema of a row is made from the columns: what a model cannot find is null, never invented.
const TYPES = { text: "string", number: "number", yes_no: "boolean" };
const properties = {};
for (const column of args.columns) properties[column.name] = { type: [TYPES[column.type ?? "text"], "null"], description: column.meaning ?? column.name };
const names = args.columns.map((column) => column.name);
const ROWS = {
  type: "object",
  properties: { rows: { type: "array", items: { type: "object", properties, required: names, additionalProperties: false } } },
  required: ["rows"],
};

phase("Extract");
const listed = await tool("list_files", { path: args.folder, glob: args.glob ?? "**/*.{md,txt}" });
const files = listed.entries.filter((entry) => entry.kind === "file");
const extracted = await pipeline(
  files,
  (entry) => tool("read_file", { path: entry.path }),
  (file, entry) =>
    retry(
      2,
      () =>
        agent("Extract every row from this text. Use null where the text does not say. Do not guess.\n\n" + file.text, {
          label: entry.path,
          schema: ROWS,
          tools: [],
        }),
      { on: ["schema", "timeout"] },
    ),
);

phase("Write");
const cell = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
};
const rows = [];
files.forEach((entry, i) => {
  for (const row of extracted[i]?.rows ?? []) rows.push([entry.path, ...names.map((name) => row[name])]);
});
const table = [["file", ...names], ...rows].map((row) => row.map(cell).join(","));
await tool("write_file", { path: args.output, content: table.join("\n") + "\n" });

const failed = files.filter((_, i) => extracted[i] === null).map((entry) => entry.path);
return {
  summary: rows.length + " rows from " + (files.length - failed.length) + " of " + files.length + " files, in " + args.output,
  rows: rows.length,
  files: files.length,
  failed,
  written: args.output,
};
