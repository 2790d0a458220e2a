//! Expressions of a query, in the detail that index lookups need.

use super::super::list::{list, oids};
use super::exec::binding::HashedList;
use crate::pg::clause::Clause;
use pgrx::{is_a, pg_sys};
use std::marker::PhantomData;

/// An expression; it lives as long as the planner's state.
#[derive(Clone, Copy)]
pub struct Expr<'a> {
    node: *mut pg_sys::Node,
    planner: PhantomData<&'a ()>,
}

/// A clause while planning, on one of the table's indexes.
pub type Leaf<'a> = Clause<Source<'a>>;

/// The origin of a clause: its key and the query's condition.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The expression of the key; None for tests that have no key.
    pub key: Option<Expr<'a>>,
    /// The condition of the query that the clause was made from.
    pub condition: Expr<'a>,
}

/// The kinds of expressions.
pub enum ExprKind<'a> {
    And(Vec<Expr<'a>>),
    Or(Vec<Expr<'a>>),
    Not(Expr<'a>),
    /// An operator between two arguments, or a function that finds what an operator finds: see [`operator_of_call`].
    Operator(Comparison<'a>),
    /// `left operator ANY (right)`, the right side an array.
    AnyOf(Comparison<'a>),
    /// `(left, …) operator (right, …)`, where the operator is one of order: the first two expressions.
    Rows(Comparison<'a>),
    /// `left IS DISTINCT FROM right`, with the type's equality operator.
    Distinct(Comparison<'a>),
    IsNull(Expr<'a>),
    IsNotNull(Expr<'a>),
    /// `argument IS TRUE` and the similar tests, with the result for true, false and unknown.
    Truth(Expr<'a>, [bool; 3]),
    Other,
}

/// Two arguments and the operator that compares them.
#[derive(Clone, Copy)]
pub struct Comparison<'a> {
    pub operator: pg_sys::Oid,
    /// Collation that the operator uses.
    pub collation: pg_sys::Oid,
    pub left: Expr<'a>,
    pub right: Expr<'a>,
}

impl Comparison<'_> {
    /// The operator for swapped arguments.
    pub fn commutator(&self) -> Option<pg_sys::Oid> {
        // SAFETY: a catalog lookup.
        let operator = unsafe { pg_sys::get_commutator(self.operator) };
        (operator != pg_sys::InvalidOid).then_some(operator)
    }
}

impl<'a> Expr<'a> {
    /// # Safety
    /// `node` is a valid expression that lives as long as `'a`.
    pub(in crate::pg) unsafe fn new(node: *mut pg_sys::Node) -> Self {
        Self { node, planner: PhantomData }
    }

    /// The raw node.
    pub(super) fn raw(self) -> *mut pg_sys::Node {
        self.node
    }

    /// A comparison with one argument replaced by another expression; unchanged if it has no such argument.
    ///
    /// # Safety
    /// Both are valid expressions that live as long as `'a`.
    pub(super) unsafe fn with_argument(self, argument: Self, by: Self) -> Self {
        // SAFETY: these four node types have a list of arguments; a shallow copy gets a new one.
        unsafe {
            let replaced = |args| {
                let replace = |arg: *mut pg_sys::Node| if arg == argument.node { by.node } else { arg };
                let empty: *mut pg_sys::List = std::ptr::null_mut();
                list(args).fold(empty, |all, arg| pg_sys::lappend(all, replace(arg).cast()))
            };
            let copy = || pg_sys::copyObjectImpl(self.node.cast_const().cast());
            match (*self.node).type_ {
                pg_sys::NodeTag::T_OpExpr | pg_sys::NodeTag::T_DistinctExpr => {
                    let args = replaced((*self.node.cast::<pg_sys::OpExpr>()).args);
                    let copy = copy().cast::<pg_sys::OpExpr>();
                    (*copy).args = args;
                    Self::new(copy.cast())
                }
                pg_sys::NodeTag::T_FuncExpr => {
                    let args = replaced((*self.node.cast::<pg_sys::FuncExpr>()).args);
                    let copy = copy().cast::<pg_sys::FuncExpr>();
                    (*copy).args = args;
                    Self::new(copy.cast())
                }
                pg_sys::NodeTag::T_ScalarArrayOpExpr => {
                    let args = replaced((*self.node.cast::<pg_sys::ScalarArrayOpExpr>()).args);
                    let copy = copy().cast::<pg_sys::ScalarArrayOpExpr>();
                    (*copy).args = args;
                    Self::new(copy.cast())
                }
                _ => self,
            }
        }
    }

    /// Tells it apart from the other expressions of a planner run.
    pub fn identity(self) -> usize {
        self.node as usize
    }

    /// Whether it is a condition `left operator ANY (array)` that the scan checks by a hash table of its own.
    pub fn is_hashed_list(self) -> bool {
        // SAFETY: the node lives for 'a, and its type is checked.
        unsafe {
            is_a(self.node, pg_sys::NodeTag::T_ScalarArrayOpExpr)
                && HashedList::of(self.node.cast()).is_some()
        }
    }

    /// Whether it is a constant.
    pub fn is_constant(self) -> bool {
        // SAFETY: the node lives for 'a.
        unsafe { is_a(self.node, pg_sys::NodeTag::T_Const) }
    }

    /// Whether it is an array whose elements are written in the query: a constant, or `ARRAY[…]`.
    pub fn has_elements(self) -> bool {
        // SAFETY: the node lives for 'a.
        unsafe { self.is_constant() || is_a(self.node, pg_sys::NodeTag::T_ArrayExpr) }
    }

    /// The expression without casts that change neither the values nor, where it is an array, those of its elements
    /// (varchar[] to text[]).
    pub fn without_relabels(self) -> Self {
        // SAFETY: the node lives for 'a; a node's tag tells its type, and each has an argument.
        unsafe {
            let mut node = self.node;
            loop {
                if is_a(node, pg_sys::NodeTag::T_RelabelType) {
                    node = (*node.cast::<pg_sys::RelabelType>()).arg.cast();
                } else if is_a(node, pg_sys::NodeTag::T_ArrayCoerceExpr) {
                    let coerced = node.cast::<pg_sys::ArrayCoerceExpr>();
                    let mut element: *mut pg_sys::Node = (*coerced).elemexpr.cast();
                    while is_a(element, pg_sys::NodeTag::T_RelabelType) {
                        element = (*element.cast::<pg_sys::RelabelType>()).arg.cast();
                    }
                    if !is_a(element, pg_sys::NodeTag::T_CaseTestExpr) {
                        return Self::new(node);
                    }
                    node = (*coerced).arg.cast();
                } else {
                    return Self::new(node);
                }
            }
        }
    }

    /// The type of its values.
    pub fn type_of(self) -> pg_sys::Oid {
        // SAFETY: the node lives for 'a, and is only read.
        unsafe { pg_sys::exprType(self.node) }
    }

    /// The kind of the expression.
    pub fn kind(self) -> ExprKind<'a> {
        // SAFETY: the node's tag tells its type, and its lists hold expressions.
        unsafe {
            if is_a(self.node, pg_sys::NodeTag::T_BoolExpr) {
                let node = self.node.cast::<pg_sys::BoolExpr>();
                let parts: Vec<_> = list((*node).args).map(|part| Self::new(part)).collect();
                return match ((*node).boolop, parts.as_slice()) {
                    (pg_sys::BoolExprType::AND_EXPR, _) => ExprKind::And(parts),
                    (pg_sys::BoolExprType::OR_EXPR, _) => ExprKind::Or(parts),
                    (_, &[part]) => ExprKind::Not(part),
                    _ => ExprKind::Other,
                };
            }
            if is_a(self.node, pg_sys::NodeTag::T_OpExpr) {
                let node = self.node.cast::<pg_sys::OpExpr>();
                return comparison((*node).opno, (*node).inputcollid, (*node).args)
                    .map_or(ExprKind::Other, ExprKind::Operator);
            }
            if is_a(self.node, pg_sys::NodeTag::T_FuncExpr) {
                return operator_of_call(self.node.cast()).map_or(ExprKind::Other, ExprKind::Operator);
            }
            if is_a(self.node, pg_sys::NodeTag::T_DistinctExpr) {
                let node = self.node.cast::<pg_sys::OpExpr>(); // the same struct under another tag
                return comparison((*node).opno, (*node).inputcollid, (*node).args)
                    .map_or(ExprKind::Other, ExprKind::Distinct);
            }
            if is_a(self.node, pg_sys::NodeTag::T_ScalarArrayOpExpr) {
                let node = self.node.cast::<pg_sys::ScalarArrayOpExpr>();
                let found = comparison((*node).opno, (*node).inputcollid, (*node).args);
                return found.filter(|_| (*node).useOr).map_or(ExprKind::Other, ExprKind::AnyOf);
            }
            if is_a(self.node, pg_sys::NodeTag::T_RowCompareExpr) {
                return first_of_rows(self.node.cast()).map_or(ExprKind::Other, ExprKind::Rows);
            }
            self.test_kind()
        }
    }

    /// # Safety
    /// The node is valid, as the expression's node always is.
    unsafe fn test_kind(self) -> ExprKind<'a> {
        // SAFETY: the node's tag tells its type.
        unsafe {
            if is_a(self.node, pg_sys::NodeTag::T_NullTest) {
                let node = self.node.cast::<pg_sys::NullTest>();
                let arg = Self::new((*node).arg.cast());
                if (*node).argisrow {
                    return ExprKind::Other; // tests the row's columns, not the row
                }
                let is_null = (*node).nulltesttype == pg_sys::NullTestType::IS_NULL;
                return if is_null { ExprKind::IsNull(arg) } else { ExprKind::IsNotNull(arg) };
            }
            if is_a(self.node, pg_sys::NodeTag::T_BooleanTest) {
                let node = self.node.cast::<pg_sys::BooleanTest>();
                let arg = Self::new((*node).arg.cast());
                return match (*node).booltesttype {
                    pg_sys::BoolTestType::IS_TRUE => ExprKind::Truth(arg, [true, false, false]),
                    pg_sys::BoolTestType::IS_NOT_TRUE => ExprKind::Truth(arg, [false, true, true]),
                    pg_sys::BoolTestType::IS_FALSE => ExprKind::Truth(arg, [false, true, false]),
                    pg_sys::BoolTestType::IS_NOT_FALSE => ExprKind::Truth(arg, [true, false, true]),
                    pg_sys::BoolTestType::IS_UNKNOWN => ExprKind::Truth(arg, [false, false, true]),
                    pg_sys::BoolTestType::IS_NOT_UNKNOWN => ExprKind::Truth(arg, [true, true, false]),
                    _ => ExprKind::Other,
                };
            }
        }
        ExprKind::Other
    }
}

/// `jsonb @? jsonpath` and `jsonb @@ jsonpath`: the server has no names for these numbers, which are fixed.
const PATH_EXISTS_OPERATOR: u32 = 4012;
const PATH_IS_TRUE_OPERATOR: u32 = 4013;

/// A function that returns true only where an operator does, as that operator: `starts_with()` is `^@`,
/// `jsonb_path_exists()` is `@?`, and `jsonb_path_match()` is `@@`.
///
/// The functions of jsonb have two arguments more. One is the values of the path's variables, of which
/// [`skip_jsonb::jsonpath`] assumes nothing; the other says that errors are suppressed, as the operators do. Where they
/// are not, a row that is not read raises no error.
///
/// # Safety
/// `call` is a valid function call.
unsafe fn operator_of_call<'a>(call: *mut pg_sys::FuncExpr) -> Option<Comparison<'a>> {
    // SAFETY: as the caller says; the arguments are a list of expressions.
    let (function, collation, args) = unsafe {
        let args: Vec<_> = list((*call).args).map(|arg| Expr::new(arg)).collect();
        ((*call).funcid.to_u32(), (*call).inputcollid, args)
    };
    let (operator, left, right) = match (function, args.as_slice()) {
        (pg_sys::F_STARTS_WITH, &[left, right]) => (pg_sys::TextPrefixOperator, left, right),
        (pg_sys::F_JSONB_PATH_EXISTS, &[left, right, _, _]) => (PATH_EXISTS_OPERATOR, left, right),
        (pg_sys::F_JSONB_PATH_MATCH, &[left, right, _, _]) => (PATH_IS_TRUE_OPERATOR, left, right),
        _ => return None,
    };
    Some(Comparison { operator: operator.into(), collation, left, right })
}

/// # Safety
/// `rows` is a valid comparison of rows.
unsafe fn first_of_rows<'a>(rows: *mut pg_sys::RowCompareExpr) -> Option<Comparison<'a>> {
    // SAFETY: as the caller says: four lists with an entry for each column of the rows.
    unsafe {
        let first = |exprs| list(exprs).next().map(|expr| Expr::new(expr));
        let operator = oids((*rows).opnos).first().copied()?;
        let collation = oids((*rows).inputcollids).first().copied()?;
        Some(Comparison { operator, collation, left: first((*rows).largs)?, right: first((*rows).rargs)? })
    }
}

/// # Safety
/// `args` is the argument list of an operator expression.
unsafe fn comparison<'a>(
    operator: pg_sys::Oid,
    collation: pg_sys::Oid,
    args: *mut pg_sys::List,
) -> Option<Comparison<'a>> {
    // SAFETY: a list of expressions.
    let args: Vec<_> = unsafe { list(args).map(|arg| Expr::new(arg)).collect() };
    let &[left, right] = args.as_slice() else { return None };
    Some(Comparison { operator, collation, left, right })
}
