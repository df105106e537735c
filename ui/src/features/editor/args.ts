// A Graph's argument schema as form fields. What a form cannot hold faithfully is left to raw JSON, never guessed.
export type Field =
  | { kind: "text"; name: string; required: boolean; hint: string }
  | { kind: "number"; name: string; required: boolean; hint: string; whole: boolean }
  | { kind: "switch"; name: string; required: boolean; hint: string }
  | { kind: "choice"; name: string; required: boolean; hint: string; options: string[] }
  | { kind: "list"; name: string; required: boolean; hint: string }
  | { kind: "json"; name: string; required: boolean; hint: string };

type Schema = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is Schema => typeof value === "object" && value !== null && !Array.isArray(value);

function parse(text: string | null): Schema | undefined {
  if (text === null) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Undefined when the schema is not an object with named members: then only JSON will do. */
export function fieldsOf(schemaText: string | null): Field[] | undefined {
  const schema = parse(schemaText);
  const properties = schema?.["properties"];
  if (!isObject(properties)) return undefined;
  const needed = Array.isArray(schema?.["required"]) ? schema["required"] : [];
  return Object.entries(properties).map(([name, raw]) => fieldOf(name, isObject(raw) ? raw : {}, needed.includes(name)));
}

function fieldOf(name: string, schema: Schema, required: boolean): Field {
  const hint = typeof schema["description"] === "string" ? schema["description"] : "";
  const base = { name, required, hint };
  const options = schema["enum"];
  if (Array.isArray(options) && options.every((option) => typeof option === "string")) return { kind: "choice", ...base, options: [...new Set(options)] };
  switch (schema["type"]) {
    case "string":
      return { kind: "text", ...base };
    case "number":
    case "integer":
      return { kind: "number", ...base, whole: schema["type"] === "integer" };
    case "boolean":
      return { kind: "switch", ...base };
    case "array": {
      const items = schema["items"];
      return isObject(items) && items["type"] === "string" ? { kind: "list", ...base } : { kind: "json", ...base };
    }
    default:
      return { kind: "json", ...base };
  }
}

/** The arguments a form starts with: the schema's defaults. */
export function startArgs(schemaText: string | null): string {
  const properties = parse(schemaText)?.["properties"];
  if (!isObject(properties)) return "{}";
  const filled = Object.entries(properties).flatMap(([name, raw]) => (isObject(raw) && "default" in raw ? [[name, raw["default"]] as const] : []));
  return JSON.stringify(Object.fromEntries(filled), null, 2);
}

/** The members of the arguments, or undefined when the text is not a JSON object. */
export function readArgs(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text.trim() === "" ? "{}" : text);
    return isObject(value) ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

/** The same arguments with one member changed; `undefined` leaves it out. */
export function withArg(text: string, name: string, value: unknown): string {
  const args = readArgs(text) ?? {};
  if (value === undefined) delete args[name];
  else args[name] = value;
  return JSON.stringify(args, null, 2);
}
