// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// A form made of a JSON Schema. What it cannot ask for field by field is asked for as JSON.

import { useId, useState } from "preact/hooks";
import { visible } from "./words";

export interface Schema {
  type?: string | string[];
  description?: string;
  enum?: unknown[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
}

type Value = Record<string, unknown>;

const typeOf = (schema: Schema) => (Array.isArray(schema.type) ? schema.type.find((t) => t !== "null") : schema.type);

// Fields asks for the properties of an object. What is empty is left out.
export function Fields({ schema, value, change }: { schema: Schema; value: Value; change: (value: Value) => void }) {
  const set = (name: string, to: unknown) => {
    const { [name]: _, ...rest } = value;
    change(to === undefined ? rest : { ...rest, [name]: to });
  };
  return (
    <>
      {Object.entries(schema.properties ?? {}).map(([name, property]) => (
        <Field name={name} schema={property} needed={schema.required?.includes(name) ?? false} value={value[name]} change={(to) => set(name, to)} />
      ))}
    </>
  );
}

function Field({ name, schema, needed, value, change }: { name: string; schema: Schema; needed: boolean; value: unknown; change: (to: unknown) => void }) {
  const id = useId();
  const title = visible(name) + (needed ? " *" : "");
  const hint = schema.description && (
    <p class="hint" id={`${id}-hint`}>
      {visible(schema.description)}
    </p>
  );
  const about = { id, required: needed, "aria-describedby": schema.description ? `${id}-hint` : undefined };
  const type = typeOf(schema);
  if (type === "boolean") {
    return (
      <div>
        <label class="check">
          <input type="checkbox" {...about} required={false} checked={value === true} onChange={(e) => change(e.currentTarget.checked || undefined)} />
          <span>{title}</span>
        </label>
        {hint}
      </div>
    );
  }
  if (type === "object" && schema.properties) {
    return (
      <fieldset class="inner">
        <legend class="label">{title}</legend>
        {hint}
        <Fields schema={schema} value={(value ?? {}) as Value} change={(to) => change(Object.keys(to).length ? to : undefined)} />
      </fieldset>
    );
  }
  let input;
  if (schema.enum) {
    input = (
      <select {...about} value={value === undefined ? "" : JSON.stringify(value)} onChange={(e) => change(e.currentTarget.value === "" ? undefined : JSON.parse(e.currentTarget.value))}>
        <option value="">{schema.default === undefined ? "" : `default: ${JSON.stringify(schema.default)}`}</option>
        {schema.enum.map((one) => (
          <option value={JSON.stringify(one)}>{visible(String(one))}</option>
        ))}
      </select>
    );
  } else if (type === "integer" || type === "number") {
    input = <input type="number" {...about} step={type === "integer" ? 1 : "any"} min={schema.minimum} max={schema.maximum} value={value === undefined ? "" : String(value)} onInput={(e) => change(e.currentTarget.value === "" ? undefined : e.currentTarget.valueAsNumber)} />;
  } else if (type === "string") {
    const text = (value as string) ?? "";
    const rows = Math.min(12, Math.max(1, text.split("\n").length));
    input = <textarea {...about} rows={rows} spellcheck={false} value={text} onInput={(e) => change(e.currentTarget.value || undefined)} />;
  } else {
    input = <Json {...about} value={value} change={change} />;
  }
  return (
    <div>
      <label for={id}>
        <span>{title}</span>
      </label>
      {input}
      {hint}
    </div>
  );
}

// Json asks for a value of any kind.
export function Json({ value, change, ...about }: { value: unknown; change: (to: unknown) => void; id: string; [key: string]: unknown }) {
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value, undefined, 2));
  const [wrong, setWrong] = useState(false);
  const edit = (now: string) => {
    setText(now);
    try {
      change(now.trim() === "" ? undefined : JSON.parse(now));
      setWrong(false);
    } catch {
      setWrong(true);
    }
  };
  return <textarea {...about} rows={Math.min(16, text.split("\n").length + 1)} spellcheck={false} placeholder="JSON" aria-invalid={wrong} value={text} onInput={(e) => edit(e.currentTarget.value)} />;
}
