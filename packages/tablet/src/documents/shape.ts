import * as z from "zod";

type Fields = Readonly<Record<string, z.ZodType>>;

/** Requires that the shape has every field of the document type, and accepts every value of each field's type. */
type TakesAll<Doc, F extends Fields> = {
  readonly [K in keyof Doc]-?: K extends keyof F ? (Doc[K] extends z.output<F[K]> ? unknown : never) : never;
};

/**
 * Returns a zod shape for a document type. Unknown fields of a newer version are kept, because an older version may
 * take over during an upgrade. The compiler rejects a shape that does not accept every document of the type, so a
 * program can load everything that it stores.
 */
export function shapeOf<Doc extends object>(): <F extends Fields>(fields: F & TakesAll<Doc, F>) => z.ZodType<Doc> {
  return (fields) => z.looseObject(fields) as unknown as z.ZodType<Doc>;
}

/** Returns the `check` of a table for documents of this shape. */
export function checkOf(shape: z.ZodType): (document: object) => string | undefined {
  return (document) => {
    const { error } = shape.safeParse(document);
    if (error === undefined) return undefined;
    const [issue] = error.issues;
    return issue === undefined ? "it has another shape" : [...issue.path.map(String), issue.message].join(": ");
  };
}
