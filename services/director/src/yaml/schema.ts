import { MAX_NAME_LENGTH_BYTES, messageOf, parseName } from "@diskmesh/domain";
import * as z from "zod";
import type { Json, JsonObject } from "../store/json.js";

/** A user-chosen name, validated as in requests. */
export const nameSchema = z
  .string()
  .max(MAX_NAME_LENGTH_BYTES)
  .superRefine((name, context) => {
    try {
      parseName("the name", name);
    } catch (error) {
      context.addIssue({ code: "custom", message: messageOf(error) });
    }
  });

/** Returns a schema for texts that `parse` accepts; the parser's error becomes the issue. */
export function checkedText(parse: (text: string) => unknown): z.ZodString {
  return z
    .string()
    .max(255)
    .superRefine((text, context) => {
      try {
        parse(text);
      } catch (error) {
        context.addIssue({ code: "custom", message: messageOf(error) });
      }
    });
}

// Infinity and dates are valid YAML and cannot be sent to a CPI.
const jsonSchema: z.ZodType<Json> = z.lazy(() =>
  z.union([z.null(), z.boolean(), z.number(), z.string(), z.array(jsonSchema), z.record(z.string(), jsonSchema)]),
);

export const propertiesSchema: z.ZodType<JsonObject> = z.record(z.string(), jsonSchema);
