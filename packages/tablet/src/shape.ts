import * as z from "zod";
import { quickCheckOf } from "./quick-check.js";

type Fields = Readonly<Record<string, z.ZodType>>;

/** Requires that every field of the documents is in the shape, and that the shape accepts every value of the type. */
type TakesAll<Doc, F extends Fields> = {
  readonly [K in keyof Doc]-?: K extends keyof F ? (Doc[K] extends z.output<F[K]> ? unknown : never) : never;
};

/**
 * Returns the shape of documents or parts of them: the given fields, and any that a newer version has added, which are
 * kept, because during an upgrade the former version may have to take over. The compiler refuses a shape that lacks a
 * field of the type or refuses a value of it, so the program can load everything that it can store.
 */
export function shapeOf<Doc extends object>(): <F extends Fields>(fields: F & TakesAll<Doc, F>) => z.ZodType<Doc> {
  return (fields) => z.looseObject(fields) as unknown as z.ZodType<Doc>;
}

/** Returns the `check` of a table whose documents have that shape. */
export function checkOf(shape: z.ZodType): (document: object) => string | undefined {
  const isRight = quickCheckOf(shape);
  return (document) => {
    if (isRight(document)) return undefined;
    const { error } = shape.safeParse(document);
    if (error === undefined) return undefined;
    const [issue] = error.issues;
    return issue === undefined ? "it has another shape" : [...issue.path.map(String), issue.message].join(": ");
  };
}
