-- question: How many standard errors wide is half a 95 % confidence interval?
-- grain: a macro of degrees of freedom, from 1; null below, and above 1,000 as for 1,000
-- reads: no table
--
-- $quantiles are those of 97.5 % of Student's distribution, by degrees of freedom.
set variable student_quantiles = $quantiles;
create macro t95(freedom) as (
    case when freedom >= 1 then getvariable('student_quantiles')[least(freedom, 1000)] end
);
