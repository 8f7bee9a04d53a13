/** A shape in the plane.
 * @remarks All lengths are in metres.
 */
export interface Shape { /** The area in square metres. */ area(): number; readonly name: string }
/** A circle.
 * @example
 * ```ts
 * const c = new Circle(1);
 * c.area();
 * ```
 */
export class Circle implements Shape {
  /** Creates a circle. @param radius the radius in metres */
  constructor(public readonly radius: number) {}
  /** {@inheritDoc Shape.area} @returns the area */
  area(): number { return Math.PI * this.radius ** 2; }
  get name(): string { return "circle"; }
  /** @deprecated Use {@link Circle.area}. */
  surface(): number { return this.area(); }
}
/** Kinds. */
export enum Kind { /** Small ones. */ Small = "s", /** Large ones. */ Large = "l" }
/** Adds up areas. @param shapes the shapes @param options options of the sum */
export function total<T extends Shape>(shapes: T[], options: { round?: boolean; digits?: number } = {}): number { return shapes.reduce((sum, s) => sum + s.area(), 0); }
/** Options | unions. */
export type Options = { kind: Kind } | { shape: Shape; nested: { a: string; b?: number[] } };
/** The unit. */
export const UNIT = "m";
