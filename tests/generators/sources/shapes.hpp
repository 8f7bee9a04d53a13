/** @file
 * The file of the library.
 * @mainpage The library
 * The main page of the library. See @ref shape::Circle.
 * @section s1 First section
 * Text of the first section.
 * @code
 * shape::Circle c(1.0);
 * c.area();
 * @endcode
 */
/// Shapes in the plane.
namespace shape {
/** A circle.
 * The class describes a circle with a radius.
 * @note Radii are positive.
 * @warning Large radii overflow.
 */
class Circle {
public:
  /** Creates a circle.
   * @param r the radius in metres
   * @throws std::invalid_argument if the radius is negative
   */
  explicit Circle(double r);
  /** The area.
   * @return the area in square metres
   * @see perimeter()
   * @todo Round the result.
   */
  double area() const;
  double perimeter() const; ///< The perimeter in metres.
  /** Kinds of circles. */
  enum Kind { SMALL, /**< less than one metre */ LARGE /**< all others */ };
};
/** Compares two circles. | a | b |
 *
 * | column | value |
 * |--------|-------|
 * | first  | 1     |
 * | second | 2     |
 */
bool operator<(const Circle &a, const Circle &b);
}
