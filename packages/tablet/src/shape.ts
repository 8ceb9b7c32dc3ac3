import * as z from "zod";
import { quickCheckOf } from "./quick-check.js";

type Fields = Readonly<Record<string, z.ZodType>>;

/** Every field of the documents must be among the shape's, and the shape must take every value that the type allows. */
type TakesAll<Doc, F extends Fields> = {
  readonly [K in keyof Doc]-?: K extends keyof F ? (Doc[K] extends z.output<F[K]> ? unknown : never) : never;
};

/**
 * The shape of documents or parts of them: these fields, and any that a newer version has added, which are kept as they
 * are; while a service is upgraded its former version may have to take over. The compiler refuses a shape that leaves out
 * a field of the type or refuses a value of it, so that whatever the program can store it can also load.
 */
export function shapeOf<Doc extends object>(): <F extends Fields>(fields: F & TakesAll<Doc, F>) => z.ZodType<Doc> {
  return (fields) => z.looseObject(fields) as unknown as z.ZodType<Doc>;
}

/** The `check` of a table whose documents have that shape. */
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
